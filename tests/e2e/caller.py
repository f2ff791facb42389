"""A library user's own process: asks for a slot, says so, and holds it until it is killed.

python -m tests.e2e.caller TENANT
"""

import os
import signal
import sys
import time

import django
from django.utils.module_loading import import_string as found

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "telemachus.settings")


def main(tenant: str) -> None:
    def client(**_: object) -> None:
        slot = found("scheduling.client.slot.slot_now")()
        sys.stdout.write(f"{slot.job}\n")
        sys.stdout.flush()
        time.sleep(600)

    governed = found("scheduling.client.governed.governed")
    govern = {"tenant": tenant, "workspace": "main", "workflow": "work", "timeout_s": 60}
    governed(client, **govern)(messages=[{"role": "user", "content": "hello"}])


if __name__ == "__main__":
    django.setup()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    main(sys.argv[1])
