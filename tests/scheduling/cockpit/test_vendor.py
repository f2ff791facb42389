"""The files of others are the ones that VENDOR.toml names, with their licences."""

import hashlib
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("folder", ["static/vendor", "tests/vendor"])
def test_vendored_files_are_those_listed(folder: str) -> None:
    base = ROOT / folder
    listed = tomllib.loads((base / "VENDOR.toml").read_text())["file"]
    for entry in listed:
        found = hashlib.sha256((base / entry["file"]).read_bytes()).hexdigest()
        assert found == entry["sha256"], entry["file"]
        assert entry["version"]
        assert entry["licence"]
    names = {entry["file"] for entry in listed} | {"VENDOR.toml"}
    present = {str(path.relative_to(base)) for path in base.rglob("*") if path.is_file()}
    assert present == names
    with_licence = {Path(name).parent for name in names if Path(name).name.startswith("LICENSE")}
    assert {Path(entry["file"]).parent for entry in listed} == with_licence


def test_the_sprite_holds_every_icon_that_pages_use() -> None:
    sprite = (ROOT / "static/vendor/lucide/icons.svg").read_text()
    used = set()
    for page in (ROOT / "templates").rglob("*.html"):
        used |= {part.split('"')[0] for part in page.read_text().split("icons.svg' %}#")[1:]}
    assert used
    assert {name for name in used if f'id="{name}"' not in sprite} == set()
