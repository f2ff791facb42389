"""Checks that the migrations are up to date and that production settings pass `check --deploy`."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PRODUCTION = {
    "SECRET_KEY": "a-key-of-more-than-fifty-characters-with-0123456789-and-letters",
    "ALLOWED_HOSTS": "telemachus.example",
    "TELEMACHUS_HTTPS": "1",
    "DATABASE_URL": "postgres://nobody@127.0.0.1:1/telemachus",
    "REDIS_URL": "redis://127.0.0.1:1/0",
}
CHECKS = (
    ("check", "--deploy", "--fail-level", "WARNING"),
    ("makemigrations", "--check", "--dry-run"),
)


def main() -> int:
    """Run the checks; the first failing status is the answer."""
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, **PRODUCTION, "TELEMACHUS_HOME": home}
        for check in CHECKS:
            command = [sys.executable, "-W", "ignore", "manage.py", *check]
            code = subprocess.run(command, cwd=ROOT, env=env, check=False).returncode  # noqa: S603 (our own command)
            if code:
                return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
