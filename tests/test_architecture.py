"""The house rules that a machine can check."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import harness

ROOT = Path(__file__).parents[1]
LAYERS = ("runners", "harness", "reflection")
GUEST = sorted((ROOT / "runners" / "guest").glob("*.py"))
TEXTS = ("harness", "runners", "reflection", "fixtures", "tests", ".ci", "README.md", "pyproject.toml", "noxfile.py")


def imports(path: Path) -> Iterator[str]:
    """The top-level name of every import in a file, at whatever depth it stands."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield str(node.module).partition(".")[0]


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_point_one_way(layer):
    """
    reflection imports harness, harness imports runners, and nothing points back up.
    """
    above = set(LAYERS[LAYERS.index(layer) + 1 :])

    upward = {str(path) for path in (ROOT / layer).rglob("*.py") if above & set(imports(path))}

    assert not upward


@pytest.mark.parametrize("path", GUEST, ids=lambda path: path.name)
def test_the_guest_needs_the_standard_library_and_pytest_only(path):
    """
    An image needs Python and pytest and nothing of ours, so the guest imports nothing else.
    """
    foreign = set(imports(path)) - set(sys.stdlib_module_names) - {"pytest", "_pytest"}

    assert not foreign


@pytest.mark.parametrize("path", GUEST, ids=lambda path: path.name)
def test_the_guest_stays_in_its_own_package(path):
    """
    The guest's relative imports never leave its package: in the sandbox there is nothing above it.
    """
    relative = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ImportFrom)]

    assert all(node.level <= 1 for node in relative)


@pytest.mark.parametrize("path", [path for path in GUEST if path.name != "__init__.py"], ids=lambda path: path.name)
def test_the_guest_is_written_for_python_39(path):
    """
    The guest's source is the grammar of the oldest Python that a sandbox may hold.
    """
    assert ast.parse(path.read_text("utf-8"), feature_version=(3, 9))


def test_what_the_package_exports_is_there_and_in_order():
    """
    `harness.__all__` is sorted and every name in it can be imported.
    """
    assert harness.__all__ == sorted(harness.__all__)
    assert all(hasattr(harness, name) for name in harness.__all__)


def test_the_package_exports_all_that_it_imports_for_export():
    """
    A public name in `harness/__init__.py` is in `__all__`.
    """
    tree = ast.parse((ROOT / "harness" / "__init__.py").read_text("utf-8"))
    named = [alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]

    assert sorted(named) == harness.__all__


def test_no_text_names_a_path_of_the_machine_it_was_written_on():
    """
    Sources, tests and documents hold no path that exists on one developer's machine only.
    """
    machine = [f"/{name}/" for name in ("root", "work")] + ["/tmp/" + "venv"]
    named = [ROOT / name for name in TEXTS]
    files = [file for path in named for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file()]
    texts = {file: file.read_bytes().decode("utf-8", "replace") for file in files if "__pycache__" not in file.parts}

    found = [f"{file}: {path}" for file, text in texts.items() for path in machine if path in text]

    assert not found
