"""TCP ports of the embedded services and the web process: free, asked for, or taken."""

import errno
import os
import socket
import time
from dataclasses import dataclass

from telemachus.local.errors import LocalServiceError

LOOPBACK = "127.0.0.1"
SETTLE_S = 0.5  # a killed process keeps its sockets until its last thread is gone


@dataclass(frozen=True, slots=True, kw_only=True)
class PortPick:
    """A port to listen on; a fixed one was asked for and may not be changed for another."""

    port: int
    fixed: bool


def free_port() -> int:
    """A loopback port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def port_problem(host: str, port: int) -> str | None:
    """Why nobody could listen on host:port now; None when it is free.

    Reuse of the address is asked for, as servers do, so a closed connection's remains
    (TIME_WAIT) do not count as taken.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return f"port {port} on {host} is taken by another program"
        return f"port {port} on {host} cannot be used ({error.strerror or error})"
    return None


def lasting_problem(host: str, port: int) -> str | None:
    """The same after a moment in which a program that is just ending may give the port up."""
    deadline = time.monotonic() + SETTLE_S
    while (problem := port_problem(host, port)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return problem


def require_free(host: str, port: int, *, setting: str) -> None:
    """Raise LocalServiceError, naming the port and `setting`, unless host:port is free."""
    problem = lasting_problem(host, port)
    if problem:
        message = f"{problem}: end that program, or choose another port with {setting}"
        raise LocalServiceError(message)


def port_setting(variable: str) -> int | None:
    """The port that an environment variable asks for; None when it is unset or empty."""
    text = os.environ.get(variable, "").strip()
    if not text:
        return None
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        message = f"{variable}={text!r} is no port: give a number from 1 to 65535, or unset it"
        raise LocalServiceError(message)
    return int(text)


def pick_port(*, asked: int | None, last: int | None, setting: str) -> PortPick:
    """The asked port if one was asked for (it must be free), else the last one, else any."""
    if asked is not None:
        require_free(LOOPBACK, asked, setting=setting)
        return PortPick(port=asked, fixed=True)
    if last is not None and lasting_problem(LOOPBACK, last) is None:
        return PortPick(port=last, fixed=False)
    return PortPick(port=free_port(), fixed=False)


def require_same(what: str, *, live: int, asked: int | None, setting: str) -> None:
    """Raise LocalServiceError when a live service has another port than the one asked for."""
    if asked is not None and asked != live:
        message = (
            f"{what} already runs on port {live}, but {setting} asks for {asked}: "
            f"run `manage.py stop` first, or unset {setting}"
        )
        raise LocalServiceError(message)
