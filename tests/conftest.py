"""Shared fixtures. The servers are started by the plugin `tests.services`."""

import os
from pathlib import Path

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.db import connections
from hypothesis import settings as hypothesis_settings

from billing.services.prices import prices_forget
from scheduling.services import foresight
from telemachus.local.home import file_lock
from telemachus.local.ports import free_port
from tests.e2e.system import System

# A busy machine is no fault of the code: no example is judged by the clock. The test command draws
# the same examples each time; new ones are looked for with --hypothesis-profile=search.
hypothesis_settings.register_profile("telemachus", deadline=None, derandomize=True)
hypothesis_settings.register_profile("search", deadline=None, max_examples=1000)
hypothesis_settings.load_profile("telemachus")

PBKDF2PasswordHasher.iterations = 1  # no test is about how long a password takes to guess


@pytest.fixture(scope="session")
def django_db_modify_db_settings() -> None:
    """Give each run, and each xdist worker of it, a database of its own."""
    run = os.environ["TELEMACHUS_TEST_RUN"]
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    connections["default"].settings_dict["TEST"]["NAME"] = f"test_{run}_{worker}"


@pytest.fixture(autouse=True)
def _fresh_prices() -> None:
    """Forget cached prices: their rules belong to the database of another test."""
    prices_forget()


@pytest.fixture(autouse=True)
def _fresh_headers() -> None:
    """Forget the header of a pool that another test has read."""
    foresight._headers.clear()


@pytest.fixture(autouse=True)
def _plain_static(settings) -> None:
    """Name static files as they are: the hashed names exist only after `collectstatic`."""
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = settings.STORAGES | {"staticfiles": plain}


@pytest.fixture(scope="session")
def ready_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a whole system, with its servers, schema and prices: to make one takes long.

    The processes of one run share it.
    """
    base = tmp_path_factory.getbasetemp()
    run = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    made, home = run / "ready.made", run / "ready"
    with file_lock(run / "ready.lock"):
        if not made.exists():
            one = System(home=home, port=free_port())
            try:
                one.start()
            finally:
                code = one.stop()
            assert code == 0, one.tail()
            made.touch()
    return home
