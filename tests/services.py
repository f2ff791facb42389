"""A pytest plugin that starts the tests' own PostgreSQL and Valkey before the settings are read.

They live in a folder of their own and stay up between runs; `make clean` stops them. Each run has
its own database, each xdist worker its own Valkey database, so runs do not disturb each other.
"""

import os

from telemachus.local import postgres, valkey
from telemachus.local.home import BASE_DIR

HOME = BASE_DIR / "var" / "test"


def _worker_number() -> int:
    return int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))


os.environ["TELEMACHUS_HOME"] = str(HOME)
(HOME / "static").mkdir(parents=True, exist_ok=True)  # WhiteNoise warns of a missing folder
os.environ["DATABASE_URL"] = postgres.ensure_running(HOME)
os.environ["REDIS_URL"] = valkey.ensure_running(HOME).removesuffix("/0") + f"/{_worker_number()}"
os.environ.setdefault("TELEMACHUS_TEST_RUN", str(os.getpid()))
