"""The Celery application: acks late, prefetch 1, no result backend.

The broker carries messages, never truth: leases and fences live in PostgreSQL, so a redelivered
or lost message changes nothing.
"""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "telemachus.settings")

app = Celery("telemachus")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["scheduling.tasks"], related_name="execute")
app.autodiscover_tasks(["scheduling.tasks"], related_name="control")
