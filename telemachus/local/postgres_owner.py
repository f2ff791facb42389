"""Who runs PostgreSQL. It refuses user id 0, so root lends it another identity.

A normal user runs it as himself. Root runs it as `postgres` or `nobody`, who must be able to
reach the data and the programs; below a folder closed to others (a checkout in root's own home)
it runs in a user namespace, where root's files are its own though its user id is not 0. An
existing data folder keeps the owner it has.
"""

import os
import pwd
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from telemachus.local.errors import LocalServiceError, explained

OVERFLOW_ID = 65534  # nobody's id, inside the namespace as outside
NAMESPACE = ("--user", f"--map-user={OVERFLOW_ID}", f"--map-group={OVERFLOW_ID}", "--")
PATH = "/usr/local/bin:/usr/bin:/bin"
REACHES = 'test -x "$0" && test -x "$1"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """An identity to run PostgreSQL's programs under; uid None is the caller's own."""

    uid: int | None = None
    gid: int | None = None
    prefix: tuple[str, ...] = ()

    def run(self, argv: Sequence[str | Path]) -> "subprocess.CompletedProcess[str]":
        """Run to the end, stdout and stderr together; no signal of our terminal reaches it."""
        return subprocess.run(  # noqa: S603 programs found by us, arguments of our own
            [*self.prefix, *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            cwd="/",
            env={"PATH": PATH, "LC_ALL": "C.UTF-8"},
            start_new_session=True,
            user=self.uid,
            group=self.gid,
            extra_groups=None if self.uid is None else [],
        )

    def give(self, path: Path) -> None:
        """Make `path` this identity's own."""
        if self.uid is not None and self.gid is not None:
            with explained("change the owner of", path):
                os.chown(path, self.uid, self.gid)


def owner_of(data: Path, *, home: Path, binaries: Path) -> Owner:
    """The identity for this data folder, there already or not.

    Raises LocalServiceError when nobody fit can reach it, with the ways out.
    """
    existing = data.stat() if data.exists() else None
    if os.geteuid() != 0:
        return _normal_user(data, None if existing is None else existing.st_uid)
    if existing is None:
        account = _account()
        lent = Owner(uid=account.pw_uid, gid=account.pw_gid)
    elif existing.st_uid:
        lent = Owner(uid=existing.st_uid, gid=existing.st_gid)
    else:
        return _namespace(home, binaries) or _give_up(home, "root")
    if _reaches(lent, home, binaries):
        return lent
    namespace = _namespace(home, binaries) if existing is None else None
    return namespace or _give_up(home, f"user id {lent.uid}")


def _normal_user(data: Path, owner_uid: int | None) -> Owner:
    if owner_uid is not None and owner_uid != os.geteuid():
        message = (
            f"{data} belongs to user id {owner_uid}: run as that user or as root, or set "
            f"TELEMACHUS_HOME to a folder of your own"
        )
        raise LocalServiceError(message)
    return Owner()


def _account() -> pwd.struct_passwd:
    accounts = {entry.pw_name: entry for entry in pwd.getpwall() if entry.pw_uid}
    found = accounts.get("postgres") or accounts.get("nobody")
    if found is None:
        message = (
            "PostgreSQL does not run as root, and there is no user postgres or nobody: create "
            "one, run as a normal user, or set DATABASE_URL to a running server"
        )
        raise LocalServiceError(message)
    return found


def _reaches(owner: Owner, home: Path, binaries: Path) -> bool:
    return owner.run(["sh", "-c", REACHES, binaries / "postgres", home]).returncode == 0


def _namespace(home: Path, binaries: Path) -> Owner | None:
    unshare = shutil.which("unshare")
    owner = Owner(prefix=(unshare, *NAMESPACE)) if unshare else None
    return owner if owner and _reaches(owner, home, binaries) else None


def _give_up(home: Path, who: str) -> Owner:
    message = (
        f"PostgreSQL does not run as root, and {who} cannot reach {home} or its programs: set "
        f"TELEMACHUS_HOME to a path outside folders closed to others, run as a normal user, or "
        f"set DATABASE_URL to a running server"
    )
    raise LocalServiceError(message)
