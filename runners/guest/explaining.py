"""What the asserts of a suite that the host has compiled call when they fail: pytest's own, looked up only then."""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

prepare: Callable[[], None] | None = None
"""Called before pytest is needed, where there may be none yet."""
compared: Callable[[str, Any, Any], str | None] | None = None
"""Explains a comparison where no session of pytest's does."""


def __getattr__(name: str) -> Any:
    if prepare is not None:
        prepare()
    from _pytest.assertion import rewrite, util

    if compared is not None:
        util._reprcompare = compared
    return getattr(rewrite, name)
