"""When a model's endpoint gives no answer: who may be asked again, and when."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import TypeVar

from ..conversation import GeneratorError, Message, Tokens

__all__ = ["Fault", "Pause", "estimated", "fault_of", "retried"]

T = TypeVar("T")
Pause = Callable[[float], Awaitable[None]]

TRIES = 5
FIRST_SECONDS = 0.5
LONGEST_SECONDS = 60.0
"""An endpoint that wants us to wait longer than this is one to come back to another day."""
AGAIN = (408, 409, 425, 429)
"""Statuses below 500 after which the same request may succeed."""


class Fault(Exception):
    """No answer this time. The same request may get one."""

    def __init__(self, message: str, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after
        """Seconds that the endpoint asked us to wait."""


async def retried(ask: Callable[[], Awaitable[T]], name: str, pause: Pause = asyncio.sleep) -> T:
    """The first answer, asking up to `TRIES` times; in between the endpoint's own wish, or longer each time.

    Raises:
        GeneratorError: there was none.
    """
    for tries in range(1, TRIES + 1):
        try:
            return await ask()
        except Fault as fault:
            wait = fault.after if fault.after is not None else FIRST_SECONDS * 2 ** (tries - 1)
            if wait > LONGEST_SECONDS:
                raise GeneratorError(name, f"{fault} It asks to wait {wait:.0f} seconds; try again then.") from fault
            if tries == TRIES:
                raise GeneratorError(name, f"{fault} Asked {TRIES} times; no candidate was generated.") from fault
            await pause(wait)
    raise AssertionError("unreachable")


def fault_of(name: str, status: int, message: str, headers: Mapping[str, str], hint: str) -> Exception:
    """What an HTTP status means: a `Fault` that may pass, or an error that will not."""
    told = f"the endpoint answered {status}: {message[:500]}"
    if status in AGAIN or status >= 500:
        return Fault(f"{told}.", _retry_after(headers))
    return GeneratorError(name, f"{told}. No candidate was generated; {hint}")


def _retry_after(headers: Mapping[str, str]) -> float | None:
    given = headers.get("retry-after", "")
    try:
        return max(0.0, float(given))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(given).timestamp() - time.time())
    except (ValueError, TypeError):
        return None


def estimated(messages: tuple[Message, ...], text: str) -> Tokens:
    """For an endpoint that does not count: four characters are about a token."""
    return Tokens(prompt=sum(len(message.content) for message in messages) // 4, completion=len(text) // 4)
