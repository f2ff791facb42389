"""The addresses of sockets, behind the check of their origin.

Only the cookies are read here: the consumer looks up the session itself, in its own threads, for
the usual middleware does that in the one thread that all requests of the process share.
"""

from channels.routing import URLRouter
from channels.security.websocket import WebsocketDenier
from channels.sessions import CookieMiddleware
from django.urls import path, re_path

from scheduling.cockpit.consumer import LiveConsumer
from scheduling.cockpit.origin import OwnOriginOnly

socket_application = OwnOriginOnly(
    CookieMiddleware(
        URLRouter(
            [
                path("ws/live/", LiveConsumer.as_asgi()),
                re_path(r"", WebsocketDenier.as_asgi()),
            ]
        )
    )
)
