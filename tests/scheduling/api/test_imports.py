"""Each module of the API can be the first to be imported: the framework's settings name some."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import scheduling.api

FIRST = ["authentication", "parsers", "problems", "endpoint", "urls"]
ROOT = Path(scheduling.api.__file__).parents[2]


@pytest.mark.parametrize("name", FIRST)
def test_a_module_can_be_imported_first(name):
    code = f"import django; django.setup(); import scheduling.api.{name}"
    env = os.environ | {"DJANGO_SETTINGS_MODULE": "telemachus.settings"}
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False,
        timeout=60, env=env,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
