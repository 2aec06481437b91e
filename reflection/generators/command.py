"""Any command-line agent as a generator.

It runs in a scratch copy of the submission, reads the task and the feedback on stdin, and what it has
changed there is the next candidate. It is the user's own tool with the user's own rights: it runs outside
of any sandbox. What it wrote does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from harness import Submission
from harness.files import read

from ..conversation import Conversation, GeneratorError, Reply

__all__ = ["CommandGenerator"]

LONGEST_OUTPUT = 100_000


class CommandGenerator:
    """Runs `command`, a shell-like line or a list of words, once per candidate.

    Files that it changes, adds or removes are taken; if it changes none, what it prints is read like a
    model's reply. `seconds` bounds one run. A status other than 0 is an error, unless files were changed.
    """

    def __init__(self, command: str | Sequence[str], *, seconds: float = 1_800) -> None:
        self._words = shlex.split(command) if isinstance(command, str) else list(command)
        if not self._words:
            raise ValueError("command: is empty; which program?")
        self.name = f"command:{Path(self._words[0]).name}"
        self._seconds = seconds

    async def generate(self, conversation: Conversation) -> Reply:
        if conversation.wants == "reflection":
            return Reply()  # it was given the code to change, and has its own way to think
        before = conversation.submission
        with tempfile.TemporaryDirectory(prefix="reproof-") as folder:
            root = Path(folder)
            _write(before, root)
            status, output = await self._run(_prompt(conversation), root)
            try:
                after = Submission(files=read(root))
            except ValueError as exc:
                raise GeneratorError(self.name, f"what it left behind cannot be taken: {exc}") from None
        if after.files != (before.files if before is not None else {}):
            return Reply(text=output, submission=after)
        if status != 0:
            said = output.strip()[-500:] or "nothing"
            raise GeneratorError(self.name, f"ended with status {status} and changed no file. It said: {said}")
        return Reply(text=output)

    async def _run(self, prompt: str, folder: Path) -> tuple[int, str]:
        # Files and no pipes: a helper that the agent leaves in the background would keep a pipe open.
        with tempfile.TemporaryFile() as told, tempfile.TemporaryFile() as said:
            told.write(prompt.encode("utf-8", "backslashreplace"))
            told.seek(0)
            status = await self._status(folder, told, said)
            said.seek(max(0, said.seek(0, os.SEEK_END) - LONGEST_OUTPUT))
            return status, said.read().decode("utf-8", "replace")

    async def _status(self, folder: Path, told: IO[bytes], said: IO[bytes]) -> int:
        process = await self._start(folder, told, said)
        try:
            async with asyncio.timeout(self._seconds):
                return await process.wait()
        except TimeoutError:
            raise GeneratorError(
                self.name, f"was not done after {self._seconds:g} seconds, and was ended; its changes are lost."
            ) from None
        finally:
            await _end(process)

    async def _start(self, folder: Path, told: IO[bytes], said: IO[bytes]) -> asyncio.subprocess.Process:
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *self._words,
                cwd=folder,
                stdin=told,
                stdout=said,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,  # so that what it starts can be ended with it
            )
        )
        try:
            return await asyncio.shield(starting)
        except OSError as exc:
            raise GeneratorError(
                self.name, f"cannot be started: {exc.strerror or exc}. No candidate was generated."
            ) from exc
        except asyncio.CancelledError:  # asyncio alone would end the program, and not what that has started by now
            with contextlib.suppress(OSError):
                await _end(await starting)
            raise


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _write(submission: Submission | None, root: Path) -> None:
    for path, data in (submission.files if submission is not None else {}).items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


def _prompt(conversation: Conversation) -> str:
    """The task, and what was said last."""
    told = [turn.feedback for turn in conversation.turns if turn.feedback]
    words = conversation.task.strip() + "\n\nThe files are in the current directory. Change them there.\n"
    return f"{words}\nThey were tried, and this came of it:\n\n{told[-1]}\n" if told else words
