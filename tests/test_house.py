"""The house's own rules: sizes, empty package files, plain names, locks without addresses."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("telemachus", "scheduling", "billing", "tenants", "tools", "tests")
MOST_LINES = 400
REFUSED_NAMES = {"utils", "common", "helpers", "manager", "base"}
FULL_PACKAGES = {
    "telemachus/__init__.py",
    "billing/models/__init__.py",
    "scheduling/models/__init__.py",
}


def source_files() -> list[Path]:
    return sorted(
        path
        for folder in SOURCES
        for path in (ROOT / folder).rglob("*.py")
        if "migrations" not in path.parts
    )


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_no_file_is_longer_than_the_house_allows():
    assets = [*ROOT.glob("static/js/*.js"), *ROOT.glob("static/css/*.css")]
    long = {
        name_of(path): count
        for path in [*source_files(), *assets, *ROOT.glob("templates/**/*.html")]
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > MOST_LINES
    }
    assert long == {}


def test_package_files_are_empty():
    full = {
        name_of(path)
        for path in source_files()
        if path.name == "__init__.py" and path.read_text(encoding="utf-8").strip()
    }
    assert full == FULL_PACKAGES


def test_no_module_has_a_name_that_says_nothing():
    assert [name_of(path) for path in source_files() if path.stem in REFUSED_NAMES] == []


def test_no_import_hides_inside_a_function():
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    hidden = {
        f"{name_of(path)}:{inner.lineno}"
        for path in source_files()
        for outer in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(outer, functions)
        for inner in ast.walk(outer)
        if isinstance(inner, ast.Import | ast.ImportFrom)
    }
    assert hidden == set()


def test_lock_files_name_no_address():
    for lock in ROOT.glob("requirements/*.txt"):
        text = lock.read_text(encoding="utf-8")
        assert "://" not in text
        assert "--hash=sha256:" in text
