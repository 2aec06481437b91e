"""How pytest's own objects are put together: which hooks there are, who answers them, and what each object can do.

A candidate beside pytest can replace any of that without touching a module. `Assembly` remembers
it as it is before any test module is imported, and `changes` tells what is another now. A guest
that waits for jobs has begun its session already, and so does this once for all of them.
"""

from __future__ import annotations

import types

from . import pristine

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    import pytest

_WATCHED_HOOKS = (
    *("pytest_runtest_protocol", "pytest_runtest_setup", "pytest_runtest_call", "pytest_runtest_teardown"),
    *("pytest_pyfunc_call", "pytest_runtest_makereport", "pytest_runtest_logreport", "pytest_fixture_setup"),
    *("pytest_runtestloop", "pytest_collection_modifyitems", "pytest_pycollect_makeitem", "pytest_generate_tests"),
    *("pytest_assertrepr_compare", "pytest_sessionfinish", "pytest_runtest_logstart", "pytest_runtest_logfinish"),
)
"""Hooks by which one can decide what becomes of a test."""


class Assembly:
    def __init__(self, session: pytest.Session) -> None:
        config, manager = session.config, session.config.pluginmanager
        self.session = session
        self._hooks = dict(vars(config.hook))
        self._answers = list(self._implementations())
        self._functions = _called(self._answers)
        self._parts = [
            (session, "config", config),
            (config, "hook", config.hook),
            (config, "pluginmanager", manager),
            (manager, "_inner_hookexec", manager._inner_hookexec),
        ]
        self._parts += [
            (hook, "_hookexec", hook._hookexec) for name, hook in self._hooks.items() if name in _WATCHED_HOOKS
        ]
        objects = (session, config, manager, config.hook)
        self._objects = [(part, type(part), _functions_of(type(part))) for part in objects]

    def changes(self, submitted: Callable[[Any], str | None], has_plugins: bool) -> Iterator[str]:
        """What the submission has done; `submitted` says where something was made, if it was made there."""
        for owner, name, before in self._parts:
            if getattr(owner, name, None) is not before:
                yield f"replaced `{name}` of pytest's {type(owner).__name__}"
        for part, kind, functions in self._objects:
            if type(part) is not kind:
                yield f"gave pytest's {kind.__name__} another class"
            for name in vars(part).keys() & functions:
                yield f"replaced `{name}` of pytest's {kind.__name__}"
        hooks = vars(self.session.config.hook)
        if not pristine.identical([hooks.get(name) for name in self._hooks], self._hooks.values()):
            others = (name for name in self._hooks if hooks.get(name) is not self._hooks[name])
            yield from (f"replaced pytest's hook `{name}`" for name in others)
        answers = list(self._implementations())
        now, before = [*answers, *_called(answers)], [*self._answers, *self._functions]
        if len(now) != len(before) or not pristine.identical(now, before):
            yield from self._other_answers(answers, submitted, has_plugins)

    def _other_answers(
        self, answers: list[Any], submitted: Callable[[Any], str | None], has_plugins: bool
    ) -> Iterator[str]:
        before = {id(impl): function for impl, function in zip(self._answers, self._functions)}  # noqa: B905  # 3.9
        for impl in answers:
            if id(impl) in before:
                if before[id(impl)] is not impl.function:
                    yield f"replaced an implementation of {impl.function.__name__}"
            elif not has_plugins and (place := submitted(impl.function)) is not None:
                yield f"answers pytest's hook {impl.function.__name__}, {place}"

    def _implementations(self) -> Iterator[Any]:
        for name in _WATCHED_HOOKS:
            if name in self._hooks:
                yield from self._hooks[name].get_hookimpls()


def _called(answers: list[Any]) -> list[Any]:
    return [impl.function for impl in answers]


def _functions_of(kind: type[Any]) -> frozenset[str]:
    """The names of what its objects can do: an attribute of an object that has such a name is in the way of that."""
    return frozenset(name for name in dir(kind) if isinstance(getattr(kind, name, None), types.FunctionType))


kept: Assembly | None = None
"""Of the session that a warm guest has begun for all jobs."""


def of(session: pytest.Session) -> Assembly:
    return kept if kept is not None and kept.session is session else Assembly(session)
