"""All settings. Every one that an operator may change is an environment variable (see README).

Reading the settings starts nothing: the embedded servers are started by `manage.py up`, by
`manage.py demo` and by the tests. Without DATABASE_URL and REDIS_URL the live embedded servers of
the home folder are used.
"""

from pathlib import Path
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

from telemachus.local import postgres, valkey
from telemachus.local.errors import LocalServiceError
from telemachus.local.home import BASE_DIR, home_folder
from telemachus.local.secrets_file import load_secrets

env = environ.Env()

try:
    HOME = home_folder()
    SECRETS = load_secrets(HOME)
    DATABASE_URL = env.str("DATABASE_URL", default="") or postgres.url(HOME)
    EMBEDDED_REDIS_URL = valkey.url(HOME)
except LocalServiceError as error:
    raise ImproperlyConfigured(str(error)) from error

DEBUG = env.bool("DEBUG", default=False)
SECRET_KEY = env.str("SECRET_KEY", default=SECRETS["SECRET_KEY"])
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.postgres",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "channels",
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "axes",
    "csp",
    "guardian",
    "tenants",
    "billing",
    "scheduling",
    "telemachus",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "axes.middleware.AxesMiddleware",
]

ROOT_URLCONF = "telemachus.urls"
ASGI_APPLICATION = "telemachus.asgi.application"
WSGI_APPLICATION = "telemachus.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

# --- services -----------------------------------------------------------------------------------
# Where nothing is configured and nothing runs, the port 1 of loopback refuses at once and clearly.

DATABASES = {"default": env.db_url_config(DATABASE_URL or "postgres://none@127.0.0.1:1/telemachus")}
# A process that freezes in a transaction would keep its rows locked, and the governor looking through
# all that has changed since, for as long as it sleeps. A prepared statement is planned once, see
# `tenants.prepared`. What DATABASE_URL says comes last and wins.
_SESSION = "-c idle_in_transaction_session_timeout=60s -c plan_cache_mode=force_generic_plan"
_options = DATABASES["default"].setdefault("OPTIONS", {})
_options["options"] = f"{_SESSION} {_options.get('options', '')}"
_options.update(
    {
        "connect_timeout": 5,
        "prepare_threshold": 2,  # of `tenants.prepared` alone: Django's own cursors prepare nothing
        "pool": {
            "min_size": 0,
            "max_size": env.int("DATABASE_POOL_MAX", default=20),
            "timeout": 10,
            "max_idle": 60,
        },
    }
)
DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
DATABASES["default"]["DISABLE_SERVER_SIDE_CURSORS"] = False

REDIS_URL = env.str("REDIS_URL", default="") or EMBEDDED_REDIS_URL or "redis://127.0.0.1:1/0"
CELERY_BROKER_URL = env.str("CELERY_BROKER_URL", default="") or REDIS_URL
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_DISABLE_PREFETCH = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_DEFAULT_QUEUE = "control"
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_WORKER_SEND_TASK_EVENTS = False
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False
CELERY_BROKER_TRANSPORT_OPTIONS = {"ack_emulation": False}

CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        # Pub/sub knows no database numbers, so the prefix carries it.
        "CONFIG": {"hosts": [REDIS_URL], "prefix": f"telemachus-{urlsplit(REDIS_URL).path[1:]}"},
    }
}

# --- people -------------------------------------------------------------------------------------

AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
    "guardian.backends.ObjectPermissionBackend",
]
ANONYMOUS_USER_NAME = None  # no rights for who is not signed in, and no row of such a user
GUARDIAN_MONKEY_PATCH_USER = False
GUARDIAN_MONKEY_PATCH_GROUP = False
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ["MinimumLengthValidator", "CommonPasswordValidator", "NumericPasswordValidator"]
]
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login/"
AXES_FAILURE_LIMIT = 10
AXES_COOLOFF_TIME = 0.25  # hours
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_RESET_ON_SUCCESS = True
AXES_VERBOSE = False
AXES_LOCKOUT_TEMPLATE = "locked.html"

# --- web ----------------------------------------------------------------------------------------

HTTPS = env.bool("TELEMACHUS_HTTPS", default=False)
SECURE_SSL_REDIRECT = HTTPS
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = HTTPS
SECURE_HSTS_PRELOAD = HTTPS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_SECURE = HTTPS
SESSION_COOKIE_HTTPONLY = True
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 32 * 1024 * 1024  # a bulk submit of 10,000 rows
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "font-src": ["'self'"],
        "connect-src": ["'self'"],
        "form-action": ["'self'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
    }
}

STATIC_URL = "/static/"
STATIC_ROOT = Path(env.str("STATIC_ROOT", default=str(HOME / "static")))
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "telemachus.storage.ModuleManifestStorage"},
}

LANGUAGE_CODE = "en-gb"
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "scheduling.api.authentication.KeyAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["scheduling.api.parsers.StrictJSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "scheduling.api.problems.problem_response",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Telemachus",
    "DESCRIPTION": "Multi-tenant AI workload scheduler.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SCHEMA_PATH_PREFIX": "/api/v1",
}

# --- scheduling ---------------------------------------------------------------------------------

GOVERNOR_LEASE_S = env.float("TELEMACHUS_GOVERNOR_LEASE_S", default=3.0)
WORKER_LEASE_S = env.float("TELEMACHUS_WORKER_LEASE_S", default=3.0)
REVIEW_LEASE_S = env.float("TELEMACHUS_REVIEW_LEASE_S", default=1800.0)
"""How long a reviewer has a review before it goes back."""
SNAPSHOT_EVERY_S = env.float("TELEMACHUS_SNAPSHOT_EVERY_S", default=2.0)
QUEUE_POLICY = env.str("TELEMACHUS_QUEUE_POLICY", default="")
"""Dotted path of a class that replaces admit, order or place (scheduling.core.policy.seam)."""
WEBHOOK_ALLOW_PRIVATE = env.bool("TELEMACHUS_WEBHOOK_ALLOW_PRIVATE", default=False)
RESERVATION_LIFE_S = env.float("TELEMACHUS_RESERVATION_LIFE_S", default=86_400.0)
FLOW_HTTP_HOSTS = env.list("TELEMACHUS_FLOW_HTTP_HOSTS", default=[])
"""Hosts (or host:port) that the tool `http_get` of flows may read; empty: none."""
FLOW_FILES_DIR = env.str("TELEMACHUS_FLOW_FILES_DIR", default="")
"""The one folder whose files the tool `read_file` of flows may read; empty: none."""
MODEL_API_KEYS = env.dict("TELEMACHUS_MODEL_API_KEYS", default={})
METRICS_TOKEN = env.str("TELEMACHUS_METRICS_TOKEN", default="")
"""What a Prometheus server sends as a bearer token for `/metrics`; empty: operators alone read it."""

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(levelname)s %(name)s %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": env.str("LOG_LEVEL", default="INFO")},
    "loggers": {
        "django.request": {"level": "ERROR"},
        "httpx": {"level": "WARNING"},
        "axes": {"level": "WARNING"},
        "celery.app.trace": {"level": "WARNING"},  # a line a task, else
        "celery.worker.strategy": {"level": "WARNING"},
    },
}
