"""WSGI entry point, for production servers that run the API apart from the sockets."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "telemachus.settings")
application = get_wsgi_application()
