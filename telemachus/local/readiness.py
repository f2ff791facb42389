"""Waits for the web process to answer, and says so once."""

import http.client
import threading
from collections.abc import Callable
from urllib.parse import urlsplit

ASK_EVERY_S = 0.2
ANSWER_WITHIN_S = 2.0
# 400 is how a live web refuses a Host that an operator left out of ALLOWED_HOSTS.
LAST_GOOD_STATUS = 400


def answers(address: str, path: str = "/healthz") -> bool:
    """True if the web at `address` answers `path` without an error."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(
        parts.hostname or "", parts.port, timeout=ANSWER_WITHIN_S
    )
    try:
        # localhost is an allowed host by default; the address listened on may not be.
        connection.request("GET", path, headers={"Host": "localhost"})
        return connection.getresponse().status <= LAST_GOOD_STATUS
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


class ReadinessProbe:
    """A thread that calls `announce` once the web answers; it ends with the block it guards."""

    def __init__(self, address: str, announce: Callable[[], None]) -> None:
        self._address = address
        self._announce = announce
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._probe, name="readiness")

    def __enter__(self) -> "ReadinessProbe":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _probe(self) -> None:
        while not self._stopping.wait(ASK_EVERY_S):
            if answers(self._address):
                self._announce()
                return
