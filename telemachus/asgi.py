"""ASGI entry point: pages and API over HTTP, the live board over WebSocket.

A request that comes just as the server stops can be left with a thread that waits for the event loop,
which is gone, and Python waits for its threads: the process would never end. So it has `LEAVE_S` from
there, as what it had begun in earnest has been waited for by then.
"""

import logging
import os
import sys
import threading
import time

from channels.routing import ProtocolTypeRouter
from django.core.asgi import get_asgi_application
from django.utils.module_loading import import_string

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "telemachus.settings")

log = logging.getLogger(__name__)

LEAVE_S = 5.0

pages = get_asgi_application()
# The sockets' modules import models, which exist only now that the apps are loaded.
sockets = import_string("scheduling.cockpit.routing.socket_application")

application = ProtocolTypeRouter({"http": pages, "websocket": sockets})


def _leave() -> None:
    time.sleep(LEAVE_S)
    log.warning("a request that was cut off did not end: leaving without it")
    os._exit(0)


def _leave_soon() -> None:
    threading.Thread(target=_leave, name="leaving", daemon=True).start()


if "daphne.server" in sys.modules:  # which has chosen the reactor; nobody else is to
    reactor = import_string("twisted.internet.reactor")
    reactor.addSystemEventTrigger("after", "shutdown", _leave_soon)
