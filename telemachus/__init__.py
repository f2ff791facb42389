"""The project: settings, entry points, local services."""

from telemachus.celery import app as celery_app

__all__ = ["celery_app"]
