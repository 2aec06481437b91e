"""Which mutant is next.

Mutants are ranked by how likely such an edit is at all, by how suspicious its line is, and by what the
symptoms speak for (`clues.py`). A line where an edit made more tests pass is worth a second look. (That edits
of a line change nothing does not speak against it: a result that goes nowhere is a fault, too.) A mutant that
passes more tests than the program it was made of is mutated further. No program is tried twice, in whatever
form it is written.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness import Submission

from ..conversation import Conversation, Exhausted, Reply, Turn
from .clues import ELSEWHERE, Clues, read_clues
from .mutants import mutations
from .source import Mutation, Source, parsed

__all__ = ["RepairGenerator"]

HELPED = 1.5
"""By which factor a line's rank grows when an edit there made more tests pass."""
CROWDING = 0.4
"""An operator with many mutants is likelier than each of them; 0 would count them all alike, 1 the operators."""
MOST_TRUST = 4.0
MOST_WAITING = 5_000
"""Mutants of one program that are looked at again and again; a large project has a million, and nobody tries them."""
NOT_YET = 0.5
"""Most programs have one fault: a mutant that passes a few more tests is more often lucky than half mended."""


class RepairGenerator:
    """Repairs a program that nearly works. Needs a submission to start from, and no model.

    One generator serves one run of the loop.
    """

    name = "repair"

    def __init__(self) -> None:
        self._search = _Search()
        self._lock = asyncio.Lock()

    async def generate(self, conversation: Conversation) -> Reply:
        if conversation.wants == "reflection":
            return Reply()
        async with self._lock:
            return await asyncio.to_thread(self._next, conversation.turns)

    def _next(self, turns: tuple[Turn, ...]) -> Reply:
        self._search.learn(turns)
        submission, told = self._search.next()
        return Reply(text=told, submission=submission, searching=True)


@dataclass
class _Program:
    """A submission that is being mutated, and its mutants that were not tried yet."""

    files: dict[str, bytes]
    sources: dict[str, Source]
    clues: Clues
    bonus: float = 1.0
    waiting: list[tuple[str, Mutation]] = field(default_factory=list)
    trust: dict[tuple[str, int], float] = field(default_factory=dict)
    crowds: dict[str, float] = field(default_factory=dict)

    def rank(self, path: str, mutation: Mutation) -> float:
        line = path, mutation.line
        return (
            mutation.prior
            / self.crowds[mutation.operator]
            * self.clues.lines.get(line, ELSEWHERE)
            * self.clues.operators.get(mutation.operator, 1.0)
            * self.trust.get(line, 1.0)
            * self.bonus
        )

    def believe(self, path: str, line: int) -> None:
        self.trust[path, line] = min(MOST_TRUST, self.trust.get((path, line), 1.0) * HELPED)


@dataclass(frozen=True)
class _Origin:
    program: _Program
    path: str
    mutation: Mutation


class _Search:
    def __init__(self) -> None:
        self._programs: list[_Program] = []
        self._tried: set[tuple[tuple[str, str], ...]] = set()
        self._origins: dict[tuple[tuple[str, bytes], ...], _Origin] = {}
        self._known_turns = 0

    # --- what came of earlier mutants -----------------------------------------

    def learn(self, turns: tuple[Turn, ...]) -> None:
        for turn in turns[self._known_turns :]:
            if turn.submission is not None:
                self._learn(turn.submission, turn)
        self._known_turns = len(turns)

    def _learn(self, submission: Submission, turn: Turn) -> None:
        sources = _sources(submission.files)
        clues = read_clues(turn.told, sources)
        origin = self._origins.pop(_identity(submission.files), None)
        if origin is None:  # the start, or of a run that is being resumed
            self._tried.add(_key(sources))
        before = origin.program if origin is not None else self._best()
        if before is None or clues.passed > before.clues.passed:
            if origin is not None:
                origin.program.believe(origin.path, origin.mutation.line)
            total = sum(report.total for report in turn.told) or 1
            gained = (clues.passed - before.clues.passed) / total if before is not None else 0.0
            inherited = before.bonus * (NOT_YET + gained) if before is not None else 1.0
            self._add(_Program(dict(submission.files), sources, clues, inherited))

    def _best(self) -> _Program | None:
        return max(self._programs, key=lambda program: program.clues.passed, default=None)

    def _add(self, program: _Program) -> None:
        seen: dict[tuple[str, int, int, str], tuple[str, Mutation]] = {}
        for path, source in program.sources.items():
            with contextlib.suppress(RecursionError):  # nested so deeply that no tool of Python's can walk it
                for mutation in mutations(source, program.clues.kinds):
                    key = path, mutation.start, mutation.end, mutation.text
                    if key not in seen or seen[key][1].prior < mutation.prior:
                        seen[key] = path, mutation
        program.waiting = list(seen.values())
        counts = Counter(mutation.operator for _, mutation in program.waiting)
        program.crowds = {operator: count**CROWDING for operator, count in counts.items()}
        program.waiting.sort(key=lambda waiting: program.rank(*waiting), reverse=True)
        del program.waiting[MOST_WAITING:]
        self._programs.append(program)

    # --- the next mutant --------------------------------------------------------

    def next(self) -> tuple[Submission, str]:
        if not self._programs:
            raise Exhausted("repair", "has nothing to mend; it needs a program to start from (start, --start)")
        if not any(program.sources for program in self._programs):
            raise Exhausted(
                "repair", "cannot mend what is not Python: the program that it starts from has no file that parses"
            )
        while (best := self._pop()) is not None:
            program, path, mutation = best
            mutant = program.sources[path].edited(mutation)
            if mutant is None:
                continue
            key = _key({**program.sources, path: mutant})
            if key in self._tried:
                continue
            self._tried.add(key)
            files = {**program.files, path: mutant.text.encode("utf-8")}
            self._origins[_identity(files)] = _Origin(program, path, mutation)
            return Submission.from_files(files), _described(program.sources[path], path, mutation)
        raise Exhausted("repair", f"has tried all of its {len(self._tried) - 1} mutants of the program")

    def _pop(self) -> tuple[_Program, str, Mutation] | None:
        best: tuple[float, _Program, int] | None = None
        for program in self._programs:
            for index, (path, mutation) in enumerate(program.waiting):
                rank = program.rank(path, mutation)
                if best is None or rank > best[0]:
                    best = rank, program, index
        if best is None:
            return None
        _, program, index = best
        path, mutation = program.waiting.pop(index)
        return program, path, mutation


def _sources(files: Mapping[str, bytes]) -> dict[str, Source]:
    """The files that are Python."""
    found = {}
    for path, data in files.items():
        if path.endswith(".py"):
            with contextlib.suppress(UnicodeDecodeError):
                text = data.decode("utf-8").replace("\r\n", "\n")
                tree = parsed(text)
                if tree is not None:
                    found[path] = Source(text, tree)
    return found


def _key(sources: Mapping[str, Source]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((path, source.key) for path, source in sources.items()))


def _identity(files: Mapping[str, bytes]) -> tuple[tuple[str, bytes], ...]:
    return tuple(sorted(files.items()))


def _described(source: Source, path: str, mutation: Mutation) -> str:
    old = source.text.encode("utf-8")[mutation.start : mutation.end].decode("utf-8")
    if not old:
        return f"{path}:{mutation.line}: inserted `{mutation.text.strip()}`"
    return f"{path}:{mutation.line}: `{old}` → `{mutation.text}`"
