"""Static files are collected again when what they are made of has changed, and only then."""

from pathlib import Path

import pytest

from telemachus.local import statics


@pytest.fixture
def source(settings, tmp_path) -> Path:
    """A file to be collected into a folder that stands beside it."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "one.css").write_text("a {}")
    settings.STATICFILES_DIRS = [folder]
    settings.STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]
    settings.STATIC_ROOT = tmp_path / "static"
    settings.STATIC_ROOT.mkdir()
    (settings.STATIC_ROOT / "staticfiles.json").write_text("{}")
    return folder / "one.css"


def test_what_was_never_collected_is_to_be(source, tmp_path):
    assert not statics.are_collected(tmp_path)


def test_what_was_collected_stays_until_a_file_changes_comes_or_goes(source, tmp_path):
    statics.note_collected(tmp_path)
    assert statics.are_collected(tmp_path)
    source.write_text("b {color: red}")
    assert not statics.are_collected(tmp_path)
    statics.note_collected(tmp_path)
    another = source.with_name("two.css")
    another.write_text("")
    assert not statics.are_collected(tmp_path)
    another.unlink()
    assert statics.are_collected(tmp_path)
    source.unlink()
    assert not statics.are_collected(tmp_path)


@pytest.mark.parametrize("left", [None, '{"paths": {"one.css": "one.other.css"}}'])
def test_what_was_emptied_or_collected_by_halves_is_made_again(source, settings, tmp_path, left):
    statics.note_collected(tmp_path)
    manifest = settings.STATIC_ROOT / "staticfiles.json"
    manifest.unlink()
    if left is not None:
        manifest.write_text(left)
    assert not statics.are_collected(tmp_path)


def test_another_folder_is_filled_though_the_files_are_the_same(source, settings, tmp_path):
    statics.note_collected(tmp_path)
    settings.STATIC_ROOT = tmp_path / "elsewhere"
    settings.STATIC_ROOT.mkdir()
    (settings.STATIC_ROOT / "staticfiles.json").write_text("{}")
    assert not statics.are_collected(tmp_path)
