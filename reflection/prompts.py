"""The loop's own words to a generator, around the task and the feedback."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from harness import Submission

from .conversation import Message
from .transcript import Attempt

__all__ = ["ANOTHER_APPROACH", "Strategy", "messages_for", "reflection_request"]

Strategy = Literal["plain", "reflexion"]

REMEMBERED_ATTEMPTS = 6
"""Older exchanges are left out: a model reads the latest ones, and pays for all of them."""
REMEMBERED_REFLECTIONS = 3
LARGEST_FILE = 100_000

_SYSTEM = """\
You write code. What you hand in is run against tests in a sandbox without network, and you are told what failed.

Answer with complete files in fenced code blocks. One file: one block; if nothing else is said, it is solution.py. \
Several files: the path of each on the line before its block. A unified diff against the files as they are is \
understood as well. Files that you do not mention stay as they are. Do not hand in tests, and do not write code for \
the tests alone: solve the task."""

ANOTHER_APPROACH = """\
These are the same failures as before: your last change made no difference to them. Do not vary it. Say to yourself \
what you took for granted, and take another approach."""

_REFLECT = """\
Before you try again: in at most four sentences, say why this attempt failed and what you will do differently. \
No code."""


def messages_for(task: str, attempts: Sequence[Attempt], strategy: Strategy) -> tuple[Message, ...]:
    """What a model is sent: the task, then attempts and feedback by turns.

    `attempts` are those that the generator was told of, in order. With `reflexion` only the latest attempt
    stands there, and before it what the generator said of its last failures.
    """
    remembered = 1 if strategy == "reflexion" else REMEMBERED_ATTEMPTS
    older, kept = attempts[:-remembered], list(attempts[-remembered:])
    opening = task.strip()
    if strategy == "reflexion":
        opening += _lessons(attempts)
    if kept and kept[0].iteration == 0:
        start = kept.pop(0)
        opening += f"\n\nThe code to begin with:\n\n{_said(start)}\n\n{_told(start)}"
    elif before := next((one.submission for one in reversed(older) if one.submission is not None), None):
        # A reply may be a diff, or some of the files: what it is to be applied to has to be seen.
        opening += f"\n\nThe code before the attempts below:\n\n{_shown(before)}"
    messages = [Message("system", _SYSTEM), Message("user", opening)]
    for attempt in kept:
        messages.append(Message("assistant", _said(attempt)))
        messages.append(Message("user", _told(attempt)))
    return tuple(messages)


def _told(attempt: Attempt) -> str:
    """The feedback speaks of attempts by number, so each has to have its own."""
    return f"Attempt {attempt.number}:\n\n{attempt.feedback}"


def reflection_request(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The same conversation, and the question what went wrong."""
    *before, last = messages
    return (*before, Message(last.role, f"{last.content}\n\n{_REFLECT}"))


def _lessons(attempts: Sequence[Attempt]) -> str:
    said = [attempt.reflection for attempt in attempts if attempt.reflection][-REMEMBERED_REFLECTIONS:]
    if not said:
        return ""
    return "\n\nWhat you said of earlier attempts:\n\n" + "\n".join(f"- {reflection}" for reflection in said)


def _said(attempt: Attempt) -> str:
    if attempt.reply.strip() or attempt.submission is None:
        return attempt.reply or "(no answer)"
    return _shown(attempt.submission)


def _shown(submission: Submission) -> str:
    return "\n\n".join(_block(path, data) for path, data in sorted(submission.files.items()))


def _block(path: str, data: bytes) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return f"{path}: {len(data)} bytes that are not text"
    if len(text) > LARGEST_FILE:
        return f"{path}: {len(text)} characters, too many to show"
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{path}\n{fence}\n{text}{'' if text.endswith(chr(10)) or not text else chr(10)}{fence}"
