"""The suite's modules, as they were sent: pytest compiles them from memory, whatever stands on disk by then.

What stands on disk meanwhile has as many lines as the original, and nothing in them: a candidate that
reads the tests learns nothing. A suite that has to do with files or with its own source keeps them.
"""

from __future__ import annotations

import ast
import base64
import gc
import marshal
import os
import re

from _pytest.assertion import rewrite

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import CodeType
    from typing import Any, TypeGuard

    import pytest

    Studied = Callable[[str, ast.Module, bytes, str], None]

_READS_SOURCES = re.compile(
    rb"__file__|inspect|linecache|traceback|tokenize|doctest|subprocess|multiprocessing|runpy|importlib|pytester|testdir"
    rb"|read_text|read_bytes|\bopen\b|\bglob\b|listdir|scandir|os\.walk|\bast\b|getsource|__loader__|pkgutil|pickle|coding[:=]"
)
_LINE = b"...\n"
"""A statement: pytest looks for one in each line that a traceback goes through."""

_compile, _parse = compile, ast.parse
_stock = getattr(rewrite, "_rewrite_test", None)
_suite: Served | None = None


class Served:
    """The suite's Python files. `codes` are what came of compiling them, and of nothing else."""

    def __init__(self, files: dict[str, bytes], workspace: str, study: Studied) -> None:
        self._files, self._workspace, self._study = files, workspace, study
        self.codes: dict[str, CodeType] = {}
        self.comparing: Callable[[Any, Any, bool], Any] | None = None
        """Told what an assert of the suite's is about to compare, unless both are of types that cannot lie."""
        self.compared: Callable[[Any], None] | None = None
        """Told what `comparing` has said of what was found equal then."""
        self.on_disk: dict[str, bytes] = dict(files)

    def install(self) -> None:
        global _suite
        _suite = self

    def blank(self) -> bool:
        """Leave nothing to read where the tests lie; False if this suite would notice."""
        if _stock is None or any(_READS_SOURCES.search(data) for data in self._files.values()):
            return False
        for path, data in self._files.items():
            name = path.rpartition("/")[2]
            if name.startswith("test_") or name.endswith("_test.py"):
                self.on_disk[path] = _LINE * (data.count(b"\n") + 1)
                with open(os.path.join(self._workspace, path), "wb") as file:
                    file.write(self.on_disk[path])
        return True

    def protect(self) -> None:
        for path in self._files:
            os.chmod(os.path.join(self._workspace, path), 0o444)

    def altered(self) -> list[str]:
        """Files that are not on disk what we wrote."""
        found = []
        for path, data in self.on_disk.items():
            try:
                with open(os.path.join(self._workspace, path), "rb") as file:
                    same = file.read() == data
            except OSError:
                same = False
            if not same:
                found.append(path)
        return found

    def compiled(self, filename: Path, config: pytest.Config) -> CodeType | None:
        path = self._path_of(str(filename))
        source = self._files.get(path)
        if source is None:
            return None
        tree = _parse(source, filename=str(filename))
        self._study(path, tree, source, str(filename))
        _Rewriter(str(filename), config, source).run(tree)
        code: CodeType = _compile(tree, str(filename), "exec", dont_inherit=True)
        if not self.codes:  # nothing of the candidate's is here yet, and no collection has to look at all that is
            gc.freeze()
        self.codes[path] = code
        return code

    def _path_of(self, filename: str) -> str:
        if filename.startswith(self._workspace + os.sep):
            return filename[len(self._workspace) + 1 :]
        return os.path.relpath(os.path.realpath(filename), self._workspace)


_HONEST = frozenset(map(id, (type(None), bool, int, float, complex, str, bytes)))


def _about_to_compare(left: Any, right: Any, decides: bool) -> Any:
    if id(type(left)) in _HONEST and id(type(right)) in _HONEST:
        return None
    return None if _suite is None or _suite.comparing is None else _suite.comparing(left, right, decides)


def _found_equal(asked: Any, result: Any) -> None:
    if asked and result is not False and _suite is not None and _suite.compared is not None:
        _suite.compared(asked)


def _parts(test: ast.expr) -> Iterator[ast.expr]:
    """What an assert goes by: all of it, or each part of an `and` or `or`."""
    yield test
    for part in test.values if isinstance(test, ast.BoolOp) else ():
        yield from _parts(part)


class _Rewriter(rewrite.AssertionRewriter):
    """As pytest's own; and before and after each `assert this == that` we are told of both."""

    _deciding: list[ast.expr]
    _compared: list[tuple[list[ast.stmt], ast.Assign, str, bool]]
    """Statements, which of them compares, the variable for what we say of it, and whether the assert goes by it."""

    def visit_Assert(self, assert_: ast.Assert) -> Any:
        self._deciding, self._compared = list(_parts(assert_.test)), []
        statements = super().visit_Assert(assert_)
        # Only now, and with their places: pytest walks through all that it has made, to give it those.
        for among, compares, asked, decides in self._compared:
            before, after = _told_of(compares, asked, decides, assert_)
            index = among.index(compares)
            among[index : index + 1] = [before, compares, after]
        return statements

    def visit_Compare(self, comp: ast.Compare) -> Any:
        found = super().visit_Compare(comp)
        last = self.statements[-1]
        if len(comp.ops) == 1 and isinstance(comp.ops[0], ast.Eq) and _compares(last):
            decides = any(comp is part for part in self._deciding)
            self._compared.append((self.statements, last, self.variable(), decides))
        return found


def _compares(statement: ast.stmt) -> TypeGuard[ast.Assign]:
    return (
        isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Compare)
        and isinstance(statement.targets[0], ast.Name)
    )


_LOAD = ast.Load()


def _told_of(compares: ast.Assign, asked: str, decides: bool, at: ast.Assert) -> tuple[ast.Assign, ast.Expr]:
    """What is said before and after a comparison.

    What is compared is in a variable by then, or else it is a literal, of which nobody needs to be told.
    """
    place = {name: getattr(at, name) for name in ("lineno", "col_offset", "end_lineno", "end_col_offset")}

    def name(known: ast.expr) -> ast.expr:
        return ast.Name(known.id, _LOAD, **place) if isinstance(known, ast.Name) else ast.Constant(0, **place)

    def call(function: Callable[..., Any], *given: ast.expr) -> ast.Call:
        helper = ast.Attribute(ast.Name("@pytest_ar", _LOAD, **place), function.__name__, _LOAD, **place)
        return ast.Call(helper, list(given), [], **place)

    (result,), compared = compares.targets, compares.value
    assert isinstance(compared, ast.Compare)
    sides = name(compared.left), name(compared.comparators[0])
    asks = call(_about_to_compare, *sides, ast.Constant(decides, **place))
    told = call(_found_equal, ast.Name(asked, _LOAD, **place), name(result))
    return ast.Assign([ast.Name(asked, ast.Store(), **place)], asks, **place), ast.Expr(told, **place)


ready: dict[str, str] = {}
"""Files that the host has compiled, for a judge whose pytest is configured as the host's was."""


def _rewrite_test(filename: Path, config: pytest.Config) -> Any:
    code: CodeType | None = None
    if _suite is not None:
        code = _suite.compiled(filename, config)
    elif str(filename) in ready:
        code = marshal.loads(base64.b64decode(ready[str(filename)]))  # noqa: S302  # from our own host
    if code is None:
        assert _stock is not None
        return _stock(filename, config)
    return b"", code  # the first is for a cache of byte code, of which there is none


if _stock is not None:
    setattr(rewrite, "_rewrite_test", _rewrite_test)  # noqa: B010  # its type differs between versions
    setattr(rewrite, _about_to_compare.__name__, _about_to_compare)
    setattr(rewrite, _found_equal.__name__, _found_equal)
    setattr(rewrite, "_read_pyc", lambda *_, **__: None)  # noqa: B010  # byte code that lies about is not the suite's
