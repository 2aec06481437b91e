"""Which names a place in a program can use, and what is known of the values behind them."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Literal

__all__ = ["Kind", "Scope", "functions_of", "kind_of_repr"]

Kind = Literal["number", "sequence", "text", "mapping", "set", "other"]

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_NUMBERS = ("len", "int", "float", "abs", "sum", "round", "ord", "range", "pow")
_BY_METHOD: Mapping[str, Kind] = {
    "append": "sequence",
    "extend": "sequence",
    "popleft": "sequence",
    "insert": "sequence",
    "sort": "sequence",
    "reverse": "sequence",
    "add": "set",
    "discard": "set",
    "items": "mapping",
    "keys": "mapping",
    "values": "mapping",
    "get": "mapping",
    "setdefault": "mapping",
    "split": "text",
    "rfind": "text",
    "find": "text",
    "strip": "text",
    "startswith": "text",
    **dict.fromkeys(("join", "isdigit", "isalpha", "isalnum", "isspace", "lower", "upper", "replace"), "text"),
}
_FILLS = ("append", "extend", "add", "update", "insert", "appendleft", "setdefault", "push")
_BY_CALL: Mapping[str, Kind] = {
    "list": "sequence",
    "sorted": "sequence",
    "deque": "sequence",
    "set": "set",
    "dict": "mapping",
    "defaultdict": "mapping",
    "str": "text",
    **dict.fromkeys(_NUMBERS, "number"),
}


def functions_of(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


class Scope:
    """The variables of a function and of those around it; of a module, if it is in none."""

    def __init__(self, owners: tuple[ast.AST, ...]) -> None:
        self.names: list[str] = []
        self.comprehended: set[str] = set()
        """Names that only a part of an expression knows."""
        self.kinds: dict[str, set[Kind]] = {}
        self.functions: dict[str, int] = {}
        """Functions that are defined here, with the number of their parameters."""
        self._bound: dict[str, int] = {}
        self.reads: Counter[str] = Counter()
        self._assigned: Counter[str] = Counter()
        self.beginnings: dict[str, str] = {}
        """Variables that begin as nothing, and how that is written."""
        self._filled: set[str] = set()
        for owner in owners:
            self._add(owner)
        self._bound = _first_lines(owners[-1]) if owners else {}
        self.names = [name for name in dict.fromkeys(self.names) if name not in self.functions]

    def _add(self, owner: ast.AST) -> None:
        if isinstance(owner, _FUNCTIONS):
            arguments = owner.args
            for argument in (*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs):
                if argument is not None and argument.arg not in ("self", "cls"):
                    self.names.append(argument.arg)
        for node in _own_nodes(owner):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.names.append(node.id)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self.functions[node.name] = len(node.args.args)
            elif isinstance(node, _COMPREHENSIONS):
                targets = [name for loop in node.generators for name in ast.walk(loop.target)]
                self.comprehended |= {name.id for name in targets if isinstance(name, ast.Name)}
            elif isinstance(node, ast.Name):
                self.reads[node.id] += 1
            self._learn(node)
            self._follow(node)

    def _learn(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            self._note(node.targets[0], kind_of(node.value))
        elif isinstance(node, ast.For):
            if isinstance(node.iter, ast.Call) and _called(node.iter) == "range":
                self._note(node.target, "number")
            self._note(node.iter, "sequence")
        elif isinstance(node, ast.Subscript):
            self._note(node.value, "sequence")
            if not isinstance(node.slice, ast.Slice):
                return
            for bound in (node.slice.lower, node.slice.upper):
                self._note(bound, "number")
        elif isinstance(node, ast.BinOp) and not isinstance(node.op, ast.Add | ast.Mod):
            if kind_of(node.right) == "number":
                self._note(node.left, "number")
            if kind_of(node.left) == "number":
                self._note(node.right, "number")
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and kind_of(node.comparators[0]) == "number":
            self._note(node.left, "number")
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in _BY_METHOD:
                self._note(node.func.value, _BY_METHOD[node.func.attr])
            elif _called(node) == "len" and node.args:
                self._note(node.args[0], "sequence")
            elif _called(node) == "range":
                for argument in node.args:
                    self._note(argument, "number")

    def _follow(self, node: ast.AST) -> None:
        """Which variables begin as nothing, and whether that ever changes."""
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assigned.update(part.id for part in ast.walk(target) if isinstance(part, ast.Name))
                if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
                    self._filled.add(target.value.id)
                if isinstance(target, ast.Name) and _is_empty(node.value):
                    self.beginnings[target.id] = ast.unparse(node.value)
        elif isinstance(node, ast.AugAssign | ast.For | ast.NamedExpr):
            self._assigned.update(part.id for part in ast.walk(node.target) if isinstance(part, ast.Name))
        elif isinstance(node, ast.Call):
            if (
                isinstance(node.func, ast.Attribute)
                and node.func.attr in _FILLS
                and isinstance(node.func.value, ast.Name)
            ):
                self._filled.add(node.func.value.id)
            self._filled.update(argument.id for argument in node.args if isinstance(argument, ast.Name))

    def is_left_empty(self, name: str) -> bool:
        """It begins as nothing, and no statement makes more of it: the one that should may be missing."""
        return name in self.beginnings and self._assigned[name] == 1 and name not in self._filled

    def is_rarely_read(self, name: str) -> bool:
        """Computed, and then hardly used: perhaps meant where another name stands."""
        return self.reads[name] <= 1

    def _note(self, node: ast.AST | None, kind: Kind | None) -> None:
        if isinstance(node, ast.Name) and kind is not None:
            self.kinds.setdefault(node.id, set()).add(kind)

    def learn(self, kinds: Mapping[str, Kind]) -> None:
        """What was seen in a run is surer than what was read."""
        for name, kind in kinds.items():
            if name in self.names:
                self.kinds[name] = {kind}

    def is_bound(self, name: str, line: int) -> bool:
        """Whether it may have a value when this line is reached for the first time."""
        return self._bound.get(name, 0) < line

    def may_be(self, name: str, *kinds: Kind) -> bool:
        """Whether nothing speaks against it."""
        known = self.kinds.get(name)
        return not known or bool(known & set(kinds))

    def is_known_as(self, name: str, *kinds: Kind) -> bool:
        return bool(self.kinds.get(name, set()) & set(kinds))

    def alike(self, one: str, other: str) -> bool:
        known, wanted = self.kinds.get(other), self.kinds.get(one)
        return not known or not wanted or bool(known & wanted)


def _first_lines(owner: ast.AST) -> dict[str, int]:
    """Where each variable of a function gets its first value; a parameter has it before any line."""
    found: dict[str, int] = {}
    for node in _own_nodes(owner):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found[node.id] = min(found.get(node.id, node.lineno), node.lineno)
    arguments = owner.args if isinstance(owner, _FUNCTIONS) else None
    for argument in ast.walk(arguments) if arguments is not None else ():
        if isinstance(argument, ast.arg):
            found[argument.arg] = 0
    return found


def _own_nodes(owner: ast.AST) -> Iterator[ast.AST]:
    """Everything in it but what is inside of functions in it."""
    waiting: list[ast.AST] = list(ast.iter_child_nodes(owner))
    while waiting:
        node = waiting.pop(0)
        yield node
        if not isinstance(node, _FUNCTIONS):
            waiting.extend(ast.iter_child_nodes(node))


def _is_empty(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return not node.value
    if isinstance(node, ast.Call):
        return not node.args and isinstance(node.func, ast.Name)
    return isinstance(node, ast.List | ast.Dict) and not ast.unparse(node)[1:-1]


def _called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else ""


def kind_of(node: ast.AST) -> Kind | None:
    """Of what kind an expression's value is, if that can be told by looking."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool) or node.value is None:
            return None
        return "number" if isinstance(node.value, int | float) else "text" if isinstance(node.value, str) else None
    if isinstance(node, ast.List | ast.ListComp):
        return "sequence"
    if isinstance(node, ast.Dict | ast.DictComp):
        return "mapping"
    if isinstance(node, ast.Set | ast.SetComp):
        return "set"
    if isinstance(node, ast.JoinedStr):
        return "text"
    if isinstance(node, ast.Call):
        return _BY_CALL.get(_called(node))
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Add | ast.Mod | ast.Mult):
            kinds = {kind_of(node.left), kind_of(node.right)} - {None}
            return kinds.pop() if len(kinds) == 1 else None
        return "number" if kind_of(node.left) == "number" or kind_of(node.right) == "number" else None
    return None


def kind_of_repr(shown: str) -> Kind:
    """Of what kind a value is, by what is shown of it."""
    if shown[:1].isdigit() or (shown[:1] == "-" and shown[1:2].isdigit()) or shown in ("inf", "-inf", "nan"):
        return "number"
    if shown.startswith(("'", '"')):
        return "text"
    if shown.startswith(("[", "(", "deque(")):
        return "sequence"
    if shown.startswith("set(") or (shown.startswith("{") and ":" not in shown and shown != "{}"):
        return "set"
    if shown.startswith(("{", "defaultdict(", "OrderedDict(")):
        return "mapping"
    return "other"
