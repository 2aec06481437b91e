"""What a generator is told and what it answers.

A **generator** is one async method: a conversation in, a reply out. Everything that
reaches it is in the `Conversation`, so this is also the place where the promise of
the disclosure level can be checked: nothing else crosses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

from harness import Submission
from runners.contract import Value

from .disclosure import Disclosed

__all__ = ["Conversation", "Exhausted", "Generator", "GeneratorError", "Message", "Reply", "Tokens", "Turn"]


class Tokens(Value):
    """What a generator's model read and wrote."""

    prompt: int = 0
    completion: int = 0

    @property
    def total(self) -> int:
        return self.prompt + self.completion

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(prompt=self.prompt + other.prompt, completion=self.completion + other.completion)


@dataclass(frozen=True)
class Message:
    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True)
class Turn:
    """One attempt, as the generator may know it."""

    submission: Submission | None
    """What it handed in; None if its reply held no code that could be taken."""
    told: tuple[Disclosed, ...] = ()
    """The reports of the suite and of the hidden suite, as far as the disclosure level allows."""
    feedback: str = ""
    """What it was told; empty for a sample that another one was better than."""


@dataclass(frozen=True)
class Conversation:
    """All that a generator may know."""

    task: str
    messages: tuple[Message, ...]
    """What to send to a model: the task, and the latest attempts with the feedback on them."""
    turns: tuple[Turn, ...] = ()
    """Every attempt so far, for generators that are no model."""
    wants: Literal["code", "reflection"] = "code"
    """`reflection`: a few sentences on what went wrong, and no code."""

    @property
    def submission(self) -> Submission | None:
        """What the last message speaks of."""
        told = [turn.submission for turn in self.turns if turn.submission is not None and turn.feedback]
        return told[-1] if told else None


@dataclass(frozen=True)
class Reply:
    """A model's words, or files from a generator that writes files."""

    text: str = ""
    submission: Submission | None = None
    """None: to be read out of the text."""
    tokens: Tokens = field(default_factory=Tokens)
    searching: bool = False
    """The generator tries many candidates on purpose: that they fail alike does not mean that it is stuck."""


class Generator(Protocol):
    async def generate(self, conversation: Conversation) -> Reply:
        """The next candidate. Cancelling ends all that was started for it.

        May be called again before it has returned: the samples of an iteration are asked for at once.

        Raises:
            GeneratorError: there is no answer to be had.
            Exhausted: the generator has nothing more to try.
        """


class GeneratorError(Exception):
    """The generator could not be asked, or gave no answer. Nobody's code is to blame for it."""

    def __init__(self, generator: str, message: str) -> None:
        super().__init__(f"{generator}: {message}")
        self.generator = generator


class Exhausted(GeneratorError):
    """The generator has tried all that it can think of."""
