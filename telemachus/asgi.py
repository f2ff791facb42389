"""ASGI entry point: pages and API over HTTP, the live board over WebSocket."""

import os

from channels.routing import ProtocolTypeRouter
from django.core.asgi import get_asgi_application
from django.utils.module_loading import import_string

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "telemachus.settings")

pages = get_asgi_application()
# The sockets' modules import models, which exist only now that the apps are loaded.
sockets = import_string("scheduling.cockpit.routing.socket_application")

application = ProtocolTypeRouter({"http": pages, "websocket": sockets})
