"""What can be done with an object from afar: operations by name, and special methods that ask for them.

Python looks special methods up on the type, so something that stands for an object of the
other side has a type with just those special methods that the object's own type has.
"""

from __future__ import annotations

import math
import operator

from . import signatures

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _special(name: str) -> Callable[..., Any]:
    def call(value: Any, *operands: Any) -> Any:
        return getattr(type(value), name)(value, *operands)

    return call


def _exit(manager: Any, kind: Any, exc: Any) -> Any:
    return type(manager).__exit__(manager, kind, exc, getattr(exc, "__traceback__", None))


def _aexit(manager: Any, kind: Any, exc: Any) -> Any:
    return type(manager).__aexit__(manager, kind, exc, getattr(exc, "__traceback__", None))


def _copy(value: Any) -> Any:
    import copy

    return copy.copy(value)


def _deepcopy(value: Any) -> Any:
    import copy

    return copy.deepcopy(value)


_BINARY = ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and", "or", "xor")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")

OPERATIONS: dict[str, Callable[..., Any]] = {
    "get": getattr,
    "set": setattr,
    "del": delattr,
    "call": lambda what, /, *operands, **named: what(*operands, **named),
    "method": lambda what, name, /, *operands, **named: getattr(what, name)(*operands, **named),
    "len": len,
    "length_hint": operator.length_hint,
    "bool": bool,
    "iter": iter,
    "next": next,
    "reversed": reversed,
    "contains": operator.contains,
    "getitem": operator.getitem,
    "setitem": operator.setitem,
    "delitem": operator.delitem,
    "hash": hash,
    "repr": repr,
    "str": str,
    "bytes": bytes,
    "format": format,
    "dir": dir,
    "int": int,
    "float": float,
    "complex": complex,
    "index": operator.index,
    "round": round,
    "trunc": math.trunc,
    "floor": math.floor,
    "ceil": math.ceil,
    "abs": abs,
    "neg": operator.neg,
    "pos": operator.pos,
    "invert": operator.invert,
    "divmod": divmod,
    "copy": _copy,
    "deepcopy": _deepcopy,
    "enter": _special("__enter__"),
    "exit": _exit,
    "signature": signatures.told,
    "aiter": _special("__aiter__"),
    "anext": _special("__anext__"),
    "aenter": _special("__aenter__"),
    "aexit": _aexit,
    **{name: getattr(operator, name) for name in COMPARISONS},
    **{name: getattr(operator, name + "_" if name in ("and", "or") else name) for name in _BINARY},
    **{f"i{name}": getattr(operator, f"i{name}") for name in _BINARY},
}

_UNARY = (
    *("len", "length_hint", "bool", "iter", "next", "reversed", "hash", "repr", "str", "bytes", "dir"),
    *("int", "float", "complex", "index", "trunc", "floor", "ceil", "abs", "neg", "pos", "invert"),
    *("enter", "aiter", "anext", "aenter"),
)


def _unary(operation: str) -> Callable[..., Any]:
    def forward(self: Any) -> Any:
        return self._reproof.peer.ask(operation, self)

    return forward


def binary(operation: str) -> Callable[..., Any]:
    def forward(self: Any, other: Any) -> Any:
        return self._reproof.peer.ask(operation, self, other)

    return forward


def _reflected(operation: str) -> Callable[..., Any]:
    def forward(self: Any, other: Any) -> Any:
        return self._reproof.peer.ask(operation, other, self)

    return forward


def _with_more(operation: str) -> Callable[..., Any]:
    def forward(self: Any, *more: Any) -> Any:
        return self._reproof.peer.ask(operation, self, *more)

    return forward


def _leaving(operation: str) -> Callable[..., Any]:
    def forward(self: Any, kind: Any, exc: Any, traceback: Any) -> Any:
        return self._reproof.peer.ask(operation, self, kind, exc)

    return forward


def _call(self: Any, /, *operands: Any, **named: Any) -> Any:
    return self._reproof.peer.asked("call", (self, *operands), named)


def _setitem(self: Any, key: Any, value: Any) -> None:
    self._reproof.peer.ask("setitem", self, key, value)


SPECIAL_METHODS: dict[str, Callable[..., Any]] = {
    "__call__": _call,
    "__setitem__": _setitem,
    "__contains__": binary("contains"),
    "__getitem__": binary("getitem"),
    "__delitem__": binary("delitem"),
    "__divmod__": binary("divmod"),
    "__rdivmod__": _reflected("divmod"),
    "__round__": _with_more("round"),
    "__format__": _with_more("format"),
    "__exit__": _leaving("exit"),
    "__aexit__": _leaving("aexit"),
    **{f"__{name}__": _unary(name) for name in _UNARY},
    **{f"__{name}__": binary(name) for name in _BINARY},
    **{f"__r{name}__": _reflected(name) for name in _BINARY},
    **{f"__i{name}__": binary(f"i{name}") for name in _BINARY},
}
"""Comparisons and `await` are not among them: who decides those is not the same for both sides."""
COMPUTES = frozenset((*(f"__{side}{name}__" for name in (*_BINARY, "divmod") for side in ("", "r", "i")),))
"""With another operand."""
MEASURES = frozenset(
    f"__{name}__" for name in ("abs", "int", "float", "complex", "index", "round", "trunc", "floor", "ceil")
)
"""Without one, to a number."""


def special_methods(kind: type[Any], own: Callable[[type[Any]], bool]) -> list[str]:
    """The special methods that objects of this type have from a class that is `own`."""
    wanted = [*SPECIAL_METHODS, *[f"__{name}__" for name in COMPARISONS], "__await__"]
    found = []
    for name in wanted:
        for base in kind.__mro__:
            if name in vars(base):
                if own(base) and vars(base)[name] is not None:
                    found.append(name)
                break
    return found
