"""What a candidate may know of a function that a test hands in: how it is called.

A `curry` asks for it, and so does what calls its listeners with as much as they take. The names and kinds of
the parameters go over, and which of them may be left out, but no default: that may be what a test expects.
"""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    import inspect
    from typing import Any


def told(function: Any) -> list[list[Any]]:
    """For each parameter its name, its kind, and whether it has a default."""
    import inspect

    parameters = inspect.signature(function).parameters.values()
    return [[found.name, int(found.kind), found.default is not found.empty] for found in parameters]


def signature(parameters: list[list[Any]]) -> inspect.Signature:
    import inspect

    made: Any = inspect.Parameter
    return inspect.Signature(
        [made(name, kind, default=... if optional else made.empty) for name, kind, optional in parameters]
    )


class Code:
    """Of a function's code, how many arguments it takes and what they are called."""

    def __init__(self, name: str, parameters: list[list[Any]]) -> None:
        names = {kind: [name for name, its, _ in parameters if its == kind] for kind in range(5)}
        self.co_name = name
        self.co_posonlyargcount = len(names[0])
        self.co_argcount = len(names[0]) + len(names[1])
        self.co_kwonlyargcount = len(names[3])
        self.co_varnames = (*names[0], *names[1], *names[3], *names[2], *names[4])
