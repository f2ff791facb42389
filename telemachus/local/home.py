"""The home folder: where all embedded data lives, and the locks that keep two starts apart.

Locks are `flock` locks: the kernel frees them when their holder dies, so kill -9 leaves none
behind, and a lock file that merely exists means nothing.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from telemachus.local.errors import LocalServiceError, explained

BASE_DIR = Path(__file__).resolve().parents[2]
LOCK_WAIT_S = 120.0
UNSAFE = frozenset("\"'`$\\\n\r")


def home_folder() -> Path:
    """TELEMACHUS_HOME, else `var` in the checkout. Nothing is created.

    Raises LocalServiceError when the path holds a character that pg_ctl's shell would act on.
    """
    asked = os.environ.get("TELEMACHUS_HOME", "").strip()
    home = Path(asked).expanduser().resolve() if asked else BASE_DIR / "var"
    if UNSAFE & set(str(home)):
        message = (
            f"the home folder {str(home)!r} holds a quote, $, backslash or line break: "
            f"set TELEMACHUS_HOME to a plainer path"
        )
        raise LocalServiceError(message)
    return home


def ensure_home(home: Path) -> Path:
    """Create the folder if missing and return its resolved path.

    Only its owner may list it. Root's may be passed through by others, because PostgreSQL then
    runs as another user; every file and folder inside guards itself.
    """
    with explained("create the folder", home):
        if not home.is_dir():
            home.mkdir(parents=True, exist_ok=True)
            home.chmod(0o711 if os.geteuid() == 0 else 0o700)
    if not os.access(home, os.W_OK | os.X_OK):
        message = (
            f"cannot write to {home}: run as the user who owns it, or set TELEMACHUS_HOME to a "
            f"folder that you can write"
        )
        raise LocalServiceError(message)
    return home.resolve()


def subfolder(home: Path, name: str) -> Path:
    """A folder of the home with the home's own mode, created if missing."""
    folder = home / name
    with explained("create the folder", folder):
        if not folder.is_dir():
            folder.mkdir(exist_ok=True)
            folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
    return folder


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _open_lock(path: Path) -> Iterator[int]:
    with explained("open the lock file", path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def file_lock(path: Path, *, wait_s: float = LOCK_WAIT_S) -> Iterator[None]:
    """Hold an exclusive lock on `path`; raises LocalServiceError after `wait_s` seconds."""
    with _open_lock(path) as handle:
        deadline = time.monotonic() + wait_s
        while not _try_lock(handle):
            if time.monotonic() > deadline:
                message = (
                    f"another process has held {path} for {wait_s:.0f} s: wait for it, or end it "
                    f"and try again"
                )
                raise LocalServiceError(message)
            time.sleep(0.02)
        yield


@contextmanager
def single_instance(home: Path) -> Iterator[None]:
    """Be the only `up` of this home; raises LocalServiceError naming the pid of the other one."""
    path = home / "up.lock"
    with _open_lock(path) as handle:
        if not _try_lock(handle):
            pid = os.pread(handle, 20, 0).decode().strip() or "unknown"
            message = (
                f"telemachus already runs on {home} (pid {pid}): stop it with Ctrl-C or "
                f"`manage.py stop`, or set TELEMACHUS_HOME to another folder"
            )
            raise LocalServiceError(message)
        with explained("write", path):
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield


def instance_pid(home: Path) -> int | None:
    """Pid of the `up` that runs on this home, or None."""
    path = home / "up.lock"
    if not path.exists():
        return None
    with _open_lock(path) as handle:
        if _try_lock(handle):
            return None
        text = os.pread(handle, 20, 0).decode().strip()
    return int(text) if text.isdigit() else None
