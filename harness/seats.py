"""Which seat: read off the suite, never off the candidate, who would ask for the weaker one.

`separate` keeps pytest and the suite out of the candidate's reach, and is taken wherever the
suite can be cut in two: it calls what it imports from the submission, and looks at what comes
back. What it must not do is to reach into the candidate's process by other ways than calls:
subclass its classes, look at its code, patch what it imports, share files or threads with it.
Such a suite needs `in_process`. The reading is conservative: what is not understood is taken
for a reason.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from .models import Seat, Submission, Suite

__all__ = ["SEATS", "Choice", "SeatName", "check_seat", "choose_seat"]

SeatName = Literal["auto", "separate", "in_process"]

SEATS = ("auto", "separate", "in_process")
_STRENGTH: tuple[Seat, ...] = ("in_process", "separate", "cases")

ELIGIBLE = "the suite only calls what it imports from the submission"


@dataclass(frozen=True)
class Choice:
    seat: Seat
    reason: str


def choose_seat(
    suite: Suite, submission: Submission, wanted: SeatName = "auto", required: Seat | None = None
) -> Choice:
    """The seat that this suite is judged from, and why.

    Of the submission only the names of its files count: they say what the suite's imports mean.

    Raises:
        ValueError: it is not the one that is required, or there is none of that name.
    """
    if wanted not in SEATS:
        raise ValueError(f"seat: no such seat {wanted!r}; there are {', '.join(SEATS)}")
    choice = _chosen(suite, submission, wanted)
    check_seat(choice, required)
    return choice


def check_seat(choice: Choice, required: Seat | None) -> None:
    """Raises ValueError if it is a weaker seat than the one that is required."""
    if required is not None and _STRENGTH.index(choice.seat) < _STRENGTH.index(required):
        raise ValueError(f"seat: {required} is required, and this suite cannot be judged from it: {choice.reason}")


def _chosen(suite: Suite, submission: Submission, wanted: SeatName) -> Choice:
    if not suite.files:
        return Choice("cases", "the suite has declarative cases only; they are compared outside of the sandbox")
    if wanted == "in_process":
        return Choice("in_process", "asked for")
    obstacle = _obstacle(
        tuple(sorted(suite.files.items())), suite.options, suite.workers, frozenset(_tops(submission.files))
    )
    if wanted == "separate":
        return Choice("separate", f"asked for, although {obstacle}" if obstacle else "asked for")
    return Choice("in_process", f"{obstacle}: needs in_process") if obstacle else Choice("separate", ELIGIBLE)


def _tops(paths: Iterable[str]) -> Iterator[str]:
    """The names by which the submission's modules are imported."""
    for path in paths:
        top = path.removeprefix("src/").partition("/")[0].removesuffix(".py")
        if top.isidentifier():
            yield top


@lru_cache(maxsize=1024)
def _obstacle(
    files: tuple[tuple[str, bytes], ...], options: tuple[str, ...], workers: int, tops: frozenset[str]
) -> str | None:
    """The first thing in the suite that cannot be done from another process; None if there is none."""
    if workers:
        return "the suite runs in several processes (pytest-xdist)"
    for option in options:
        if not option.startswith(HARMLESS_OPTIONS):
            return f"the option {option} may do anything to pytest"
    own = {path.partition("/")[0].removesuffix(".py") for path, _ in files}
    for path, data in files:
        name = path.rpartition("/")[2]
        if name in CONFIGURATION and any(word in data for word in CONFIGURES):
            return f"{path} configures doctests, plugins or workers"
        if path.endswith(".py"):
            if "/" in path and path.partition("/")[0] in tops and not path.startswith("tests/"):
                return f"{path} stands inside a package of the submission"
            obstacle = _in_source(path, data, tops - own)
            if obstacle:
                return obstacle
    return None


HARMLESS_OPTIONS = ("-k", "-m", "-x", "-q", "-v", "--maxfail", "--tb", "-r", "--strict", "--durations")
CONFIGURATION = ("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "pyproject.toml", "tox.ini", "setup.cfg")
CONFIGURES = (b"doctest", b"xdist", b"--cov", b"-p ", b"--import-mode", b"--dist", b"-n ")


def _in_source(path: str, data: bytes, tops: frozenset[str]) -> str | None:
    try:
        tree = _parsed(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return f"{path} does not compile"
    reading = _Reading(tops)
    try:
        reading.visit(tree)
    except _Obstacle as found:
        return f"{path}:{found.line} {found.what}"
    except RecursionError:
        return f"{path} is nested too deeply to be read"
    return None


def _parsed(data: bytes) -> ast.Module:
    try:
        return ast.parse(data)
    except SystemError:  # CPython 3.11 miscounts its own depth if the collector runs meanwhile
        return ast.parse(data)


class _Obstacle(Exception):
    def __init__(self, node: ast.AST, what: str) -> None:
        super().__init__(what)
        self.line = getattr(node, "lineno", 0)
        self.what = what


MODULES = {
    **dict.fromkeys(("inspect", "dis", "ast", "gc", "ctypes", "symtable", "tokenize", "linecache"), "looks at code"),
    **dict.fromkeys(("pickle", "marshal", "shelve", "copyreg"), "serialises objects"),
    **dict.fromkeys(("threading", "_thread", "multiprocessing", "concurrent", "queue"), "runs things at once"),
    **dict.fromkeys(("subprocess", "pty", "signal", "resource", "socket", "select"), "works on its own process"),
    **dict.fromkeys(("tempfile", "shutil", "glob", "fileinput"), "shares files"),
    **dict.fromkeys(("logging", "warnings", "tracemalloc", "faulthandler", "atexit"), "listens to its own process"),
    **dict.fromkeys(("doctest", "runpy", "code", "codeop", "pdb", "trace", "cProfile"), "runs code by other ways"),
    **dict.fromkeys(("trio", "anyio", "curio", "twisted"), "has an event loop of its own"),
    **dict.fromkeys(("builtins", "weakref", "contextvars", "types", "locale", "argparse"), "works on its own process"),
    "hypothesis.stateful": "makes classes of what it tests",
}
FIXTURES = {
    **dict.fromkeys(("tmp_path", "tmpdir", "tmp_path_factory", "tmpdir_factory"), "shares files"),
    **dict.fromkeys(("caplog", "recwarn", "capfd", "capfdbinary", "capsysbinary"), "listens to its own process"),
    **dict.fromkeys(("pytester", "testdir", "doctest_namespace"), "runs code by other ways"),
}
SYSTEM = {
    "sys": {"path", "version", "version_info", "maxsize", "platform", "exit", "byteorder", "float_info", "maxunicode"},
    "os": {"path", "sep", "linesep", "pathsep"},
    "importlib": {"import_module"},
}
"""Of these modules the suite may use only this: the rest is about its own process."""
REFLECTION = {
    *("__code__", "__globals__", "__closure__", "__defaults__", "__kwdefaults__", "__annotations__", "__wrapped__"),
    *("__mro__", "__bases__", "__subclasses__", "__slots__", "__signature__", "__func__", "__self__", "__file__"),
    *("__dict__", "__getstate__", "__setstate__", "__reduce__", "__reduce_ex__", "__weakref__", "__path__", "__spec__"),
}
BUILTINS = {"exec", "eval", "compile", "globals", "__import__", "input", "breakpoint", "memoryview"}
WRITES = {"write_text", "write_bytes", "mkdir", "touch", "unlink", "rmdir", "rename", "symlink_to", "chmod"}
READS = {"read_text", "read_bytes", "iterdir", "glob", "rglob", "exists", "is_file", "is_dir"}
PATCHES = {"setenv", "delenv", "chdir", "syspath_prepend", "setitem", "delitem", "context"}
MUTATIONS = {
    *("append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "add", "discard", "update"),
    *("setdefault", "popitem", "appendleft", "popleft", "extendleft"),
}
OF_COROUTINES = {"iscoroutinefunction", "isasyncgenfunction"}
STRATEGIES = {"builds", "from_type", "register_type_strategy", "functions"}


class _Reading(ast.NodeVisitor):
    """Walks through one file, knowing which names are the submission's."""

    def __init__(self, tops: frozenset[str]) -> None:
        self._tops = tops
        self._theirs: set[str] = set()
        self._standard: dict[str, str] = {}  # name here → sys, os, importlib, random
        self._in_test = 0
        self._starred = False
        self._defined: set[str] = set()
        self._made: set[str] = set()
        """Variables that hold an object which the suite made of a class of the submission."""

    # --- what is whose ------------------------------------------------------

    def visit_Module(self, node: ast.Module) -> None:
        for part in ast.walk(node):
            if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                self._defined.add(part.name)
            elif isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load):
                self._defined.add(part.id)
            elif isinstance(part, ast.arg):
                self._defined.add(part.arg)
        self.generic_visit(node)

    def _is_theirs(self, node: ast.AST) -> bool:
        """A name that was imported from the submission, or an attribute of one."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self._theirs

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._check_module(node, alias.name)
            top = alias.name.partition(".")[0]
            name = alias.asname or top
            if top in self._tops and top not in sys.stdlib_module_names:
                self._theirs.add(name)
            elif alias.name in (*SYSTEM, "random"):
                self._standard[name] = alias.name

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if node.level == 0:
            self._check_module(node, module)
        for alias in node.names:
            if node.level == 0:
                self._check_module(node, f"{module}.{alias.name}")
            if node.level == 0 and module.partition(".")[0] in self._tops - set(sys.stdlib_module_names):
                self._take(node, alias.asname or alias.name)
            elif module in SYSTEM and alias.name not in SYSTEM[module]:
                raise _Obstacle(node, f"imports {module}.{alias.name}, which is about its own process")
            elif alias.name in OF_COROUTINES:
                raise _Obstacle(node, f"looks at code ({alias.name})")
            elif module == "random" and alias.name == "seed":
                raise _Obstacle(node, "seeds the random numbers of its own process")

    def _take(self, node: ast.AST, name: str) -> None:
        """A name that is imported from the submission: pytest collects it, too, if it is called like a test."""
        if name.startswith(("test", "Test")):
            raise _Obstacle(node, f"imports {name}, which pytest takes for a test")
        self._starred = self._starred or name == "*"
        self._theirs.add(name)

    def _check_module(self, node: ast.AST, name: str) -> None:
        for prefix in (name, name.partition(".")[0]):
            if prefix in MODULES and prefix not in self._tops:
                raise _Obstacle(node, f"imports {prefix}, which {MODULES[prefix]}")

    # --- what is done ---------------------------------------------------------

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for base in (*node.bases, *[keyword.value for keyword in node.keywords]):
            for part in ast.walk(base):
                if self._is_theirs(part):
                    raise _Obstacle(node, f"subclasses {ast.unparse(part)}")
        self._check_decorators(node)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._check_decorators(node)
        arguments = node.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if argument.arg in FIXTURES:
                raise _Obstacle(node, f"uses {argument.arg}, which {FIXTURES[argument.arg]}")
        is_test = node.name.startswith("test") or any("fixture" in ast.unparse(d) for d in node.decorator_list)
        self._in_test += is_test
        self.generic_visit(node)
        self._in_test -= is_test

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        is_fixture = any("fixture" in ast.unparse(decorator) for decorator in node.decorator_list)
        if not node.name.startswith("test") and not is_fixture:
            raise _Obstacle(node, f"has a coroutine of its own, {node.name}, that the candidate might await")
        self.visit_FunctionDef(node)

    def _check_decorators(self, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for decorator in node.decorator_list:
            for part in ast.walk(decorator):
                if isinstance(part, ast.Name) and part.id in self._theirs:
                    raise _Obstacle(decorator, f"decorates {node.name} with {part.id}")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr in OF_COROUTINES:
            raise _Obstacle(node, f"looks at code ({node.attr})")
        if node.attr in REFLECTION and not self._own_file(node):
            raise _Obstacle(node, f"looks at {node.attr}")
        if isinstance(node.value, ast.Name) and node.value.id in self._standard:
            module = self._standard[node.value.id]
            if module in SYSTEM and node.attr not in SYSTEM[module]:
                raise _Obstacle(node, f"uses {module}.{node.attr}, which is about its own process")
            if module == "random" and node.attr in ("seed", "setstate"):
                raise _Obstacle(node, "seeds the random numbers of its own process")
        if node.attr in WRITES or (node.attr in READS and self._in_test):
            raise _Obstacle(node, f"works on files ({node.attr})")
        if node.attr in ("warns", "deprecated_call", "importorskip"):
            raise _Obstacle(node, f"uses {node.attr}, which listens to its own process")
        self.generic_visit(node)

    def _own_file(self, node: ast.Attribute) -> bool:
        return node.attr == "__file__" and not self._is_theirs(node.value)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in BUILTINS and isinstance(node.ctx, ast.Load):
            raise _Obstacle(node, f"uses {node.id}")
        if self._starred and node.id.startswith(("test", "Test")) and node.id not in self._defined:
            raise _Obstacle(node, f"imports {node.id} with all the rest, which pytest takes for a test")

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        if isinstance(function, ast.Name) and function.id == "open":
            mode = node.args[1] if len(node.args) > 1 else None
            mode = next((keyword.value for keyword in node.keywords if keyword.arg == "mode"), mode)
            reads = mode is None or (isinstance(mode, ast.Constant) and str(mode.value).strip("rbt") == "")
            if self._in_test or not reads:
                raise _Obstacle(node, "works on files (open)")
        if isinstance(function, ast.Name) and function.id in ("vars", "locals", "dir") and node.args:
            raise _Obstacle(node, f"uses {function.id}")
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name in STRATEGIES:
            raise _Obstacle(node, f"lets Hypothesis look at what it tests ({name})")
        if isinstance(function, ast.Attribute):
            self._check_method(node, function)
        self._check_patch(node, name)
        self.generic_visit(node)

    def _check_method(self, node: ast.Call, function: ast.Attribute) -> None:
        if function.attr in MUTATIONS and isinstance(function.value, (ast.Attribute, ast.Subscript)):
            root: ast.AST = function.value
            while isinstance(root, (ast.Attribute, ast.Subscript)):
                root = root.value
            if not (isinstance(root, ast.Name) and root.id in ("self", *self._standard)):
                raise _Obstacle(node, f"changes what an object holds ({ast.unparse(function)})")
        if isinstance(function.value, ast.Name) and function.value.id == "monkeypatch":
            target = node.args[0] if node.args else None
            if function.attr in PATCHES or target is None or not self._is_theirs(target):
                raise _Obstacle(node, f"patches its own process ({ast.unparse(function)})")

    def _check_patch(self, node: ast.Call, name: str) -> None:
        text = ast.unparse(node.func)
        if name == "patch" or text.endswith(("patch.object", "patch.dict", "patch.multiple")):
            target = node.args[0] if node.args else None
            by_name = isinstance(target, ast.Constant) and str(target.value).partition(".")[0] in self._tops
            if text.endswith("patch.dict") or target is None or not (by_name or self._is_theirs(target)):
                raise _Obstacle(node, f"patches its own process ({text})")

    # --- comparisons ------------------------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> None:
        if self._makes_object(node.value):
            self._made |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        self.generic_visit(node)

    def _makes_object(self, node: ast.AST) -> bool:
        """`Vector(1, 2)`, or `solution.Vector.parse("1, 2")`: an object of a class of the submission, by its name."""
        if not isinstance(node, ast.Call) or not self._is_theirs(node.func):
            return False
        parts = ast.unparse(node.func).split(".")
        return any(part[:1].isupper() and (len(part) == 1 or not part.isupper()) for part in parts)

    def visit_Compare(self, node: ast.Compare) -> None:
        """An object compared with a plain value is the candidate's to decide, and there it may not be."""
        sides = [node.left, *node.comparators]
        for left, operator, right in zip(sides, node.ops, sides[1:], strict=False):
            if isinstance(operator, (ast.Is, ast.IsNot, ast.In, ast.NotIn)):
                continue
            for one, other in ((left, right), (right, left)):
                if self._is_object(one) and _is_literal(other):
                    raise _Obstacle(node, f"compares an object with a plain value ({ast.unparse(one)})")
        self.generic_visit(node)

    def _is_object(self, node: ast.AST) -> bool:
        return self._makes_object(node) or (isinstance(node, ast.Name) and node.id in self._made)


def _is_literal(node: ast.AST) -> bool:
    if isinstance(node, ast.UnaryOp):
        return _is_literal(node.operand)
    return isinstance(node, (ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.JoinedStr))
