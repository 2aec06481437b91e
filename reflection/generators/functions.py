"""Any function or coroutine function as a generator."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import cast

from harness import Submission

from ..conversation import Conversation, Generator, Reply

__all__ = ["Answer", "FunctionGenerator", "as_generator"]

Answer = str | Submission | Reply
Function = Callable[[Conversation], Answer | Awaitable[Answer]]


class FunctionGenerator:
    """Asks a function. It returns a reply's text, a submission, or a `Reply` with token counts.

    A plain function runs in a thread, so that it may block; what it raises is raised to the caller of the loop.
    """

    def __init__(self, function: Function) -> None:
        self._function = function
        self.name = getattr(function, "__qualname__", type(function).__qualname__)

    async def generate(self, conversation: Conversation) -> Reply:
        if inspect.iscoroutinefunction(self._function):
            answer = await self._function(conversation)
        else:
            given = await asyncio.to_thread(self._function, conversation)
            answer = await given if inspect.isawaitable(given) else given
        if isinstance(answer, str):
            return Reply(text=answer)
        if isinstance(answer, Submission):
            return Reply(submission=answer)
        if isinstance(answer, Reply):
            return answer
        raise TypeError(f"{self.name} returned {type(answer).__name__}; a generator returns str, Submission or Reply")


def as_generator(given: Generator | Function) -> Generator:
    """The generator itself, or one that asks this function."""
    if hasattr(given, "generate"):
        return cast(Generator, given)
    if callable(given):
        return FunctionGenerator(given)
    raise ValueError(f"generator: {given!r} has no method `generate` and is no function")
