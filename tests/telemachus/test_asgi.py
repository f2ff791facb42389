"""The web process as a whole: it ends when it is told to."""

import os
import signal
import subprocess
import sys
import time

import pytest

from telemachus.local.ports import free_port
from telemachus.local.readiness import answers

# A thread that never comes back is what a request leaves behind that comes while the server stops.
CUT_OFF = """
import threading
from daphne.cli import CommandLineInterface
threading.Thread(target=threading.Event().wait, name="a request that was cut off").start()
CommandLineInterface.entrypoint()
"""


@pytest.mark.slow
def test_a_request_that_was_cut_off_keeps_the_web_from_ending_for_seconds_only():
    port = free_port()
    command = [sys.executable, "-c", CUT_OFF, "-p", str(port), "telemachus.asgi:application"]
    with subprocess.Popen(command, env=dict(os.environ), stderr=subprocess.PIPE, text=True) as web:
        try:
            deadline = time.monotonic() + 30
            while not answers(f"http://127.0.0.1:{port}") and time.monotonic() < deadline:
                time.sleep(0.1)
            web.send_signal(signal.SIGTERM)
            _, said = web.communicate(timeout=9)  # `up` would wait for ten
        finally:
            web.kill()
    assert web.returncode == 0
    assert "a request that was cut off did not end" in said
