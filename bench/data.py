"""Where the traces are: the folder that TELEMACHUS_DATA names, else one beside the checkout."""

import os
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]


def data_folder() -> Path | None:
    """Return the folder of the traces; None when there is none."""
    named = os.environ.get("TELEMACHUS_DATA")
    folder = Path(named) if named else _ROOT.parent / "shared" / "data"
    return folder if folder.is_dir() else None
