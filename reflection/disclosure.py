"""How much of a report may be said to whoever wrote the code.

A hidden suite is worth something as long as its author alone knows it. Four levels,
each with all of the one before:

    count   how the run ended, in general terms, and how many tests pass
    names   which tests fail, and whether by a wrong value, an exception or a limit
    io      for tests that fail: what went in, what was expected, what came
    full    everything: the suite's own lines and messages, locals, what was printed

`disclose()` copies out of a report what its level allows; the words are made of that copy
and of nothing else. A field that may carry a secret of the suite needs the level at which
that secret is told. The candidate has seen the inputs, and it may have read the suite's
files: so whatever it could write into (messages, printed text, names of its own making,
numbers) counts as carrying them.

    field of the report                          level   why
    -------------------------------------------  ------  ------------------------------------------------
    verdict, limits, outcome of a test (counted) count   a few fixed words; what was configured
    failures.kind, .phase, outcome of a test     names   fixed words, but they belong to a test
    nodeid without parameters                    names   the name; a doctest's is the candidate's, so its file only
    nodeid with parameters, subtest              io      parameters are inputs; a subtest's own message is `full`
    assertion.operator, .left, .right            io      the values compared
    assertion.explanation, exception.message     io      of these pytest's own `where RESULT = f(ARGUMENTS)`,
      of an assertion of the suite                       `DID NOT RAISE` and `Regex pattern did not match`
                                                 full    the rest, which quotes the suite
    message of a case                            io      written by the host from call, expected and actual value
    exception.type, .message, cause, group       io      of an exception that the candidate's code raised; of others the
                                                         type, if it is Python's own, and Python's words on a call or
                                                         an attribute of something that the submission defines
                                                 full    all others: the suite wrote them
    hypothesis.example                           io      inputs, with their names
    place, frames of the submission              io      `path:line`; source lines from the submission itself,
                                                         never from the sandbox, whose files it may have changed
    frames.locals                                full    inputs, and whatever the suite passed along with them
    frames of the suite, test_place              full    the suite's source
    stack                                        io      of this the lines in the submission's files
                                                 full    all of it
    measurements.peak_memory_mb                  io      a number that the candidate can choose
    stdout, stderr, log, output                  full    what suite and candidate printed
    warnings, notes, reason, exception.notes     full    free text
    reason of a skipped test                     full    the suite's text
    integrity                                    never   how we look for tampering is nothing to learn from
    everything else (isolation, seconds, seed…)  never   no help in a review
"""

from __future__ import annotations

import builtins
import io
import itertools
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from harness.formats.text import plain
from harness.models import Assertion, ErrorInfo, Failure, Frame, Limits, Report, Submission, Verdict

__all__ = ["Comparison", "Disclosed", "Disclosure", "Finding", "disclose"]

Disclosure = Literal["count", "names", "io", "full"]
LEVELS: tuple[Disclosure, ...] = get_args(Disclosure)


@dataclass(frozen=True)
class Comparison:
    operator: str
    left: str
    right: str


@dataclass(frozen=True)
class Finding:
    """One failure, as far as it may be told. What may not is empty."""

    test: str
    kind: str
    phase: str = "call"
    passed_in: int | None = None
    """The last attempt in which this test passed."""
    call: str = ""
    """A case's call and what came of it."""
    compared: Comparison | None = None
    arguments: tuple[str, ...] = ()
    expected: str = ""
    got: str = ""
    raised: str = ""
    causes: tuple[str, ...] = ()
    example: str = ""
    place: str = ""
    line: str = ""
    locals: tuple[tuple[str, str], ...] = ()
    stuck: tuple[str, ...] = ()
    test_place: str = ""
    test_line: str = ""
    explanation: str = ""
    calls: tuple[str, ...] = ()
    """The way from the test to the line that failed."""
    printed: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def cause(self) -> tuple[str, ...]:
        """The same for two failures that have the same cause, as far as can be told from outside."""
        raised = self.raised.partition(":")[0]
        if self.place:
            return self.kind, self.phase, self.place, raised
        if self.stuck:
            return self.kind, self.phase, self.stuck[0]
        file, separator, name = self.test.partition("::")
        function = file + re.split(r"[\[ ]", name)[0] if separator else self.call.partition("(")[0] or self.test
        return self.kind, self.phase, raised, self.test_place or function


@dataclass(frozen=True)
class Disclosed:
    """A report, as far as it may be told."""

    verdict: Verdict
    limits: Limits
    passed: int
    total: int
    fixed: int | None = None
    """Tests that fail in the attempt before and pass now; None without an attempt before."""
    regressed: int | None = None
    loading: str = ""
    """Of a submission that cannot be loaded: `syntax`, `import`, or another kind of failure."""
    findings: tuple[Finding, ...] = ()
    not_run: tuple[str, ...] = ()
    peak_memory_mb: float | None = None
    reason: str = ""
    printed: str = ""
    notes: tuple[str, ...] = ()


def disclose(
    report: Report,
    level: Disclosure = "full",
    *,
    previous: Sequence[Report | None] = (),
    submission: Submission | None = None,
) -> Disclosed:
    """What may be said of a report at this level, given the reports of earlier attempts; None: it had none.

    With the submission, its own lines can be quoted and told from the suite's at `io`, too.

    Raises:
        ValueError: the report is `invalid`, which says nothing of the candidate; or there is no such level.
    """
    if level not in LEVELS:
        raise ValueError(f"disclose: {level!r} is not one of {', '.join(LEVELS)}")
    if report.verdict == "invalid":
        raise ValueError("report: is invalid, which is no answer of the candidate's; verify it again")
    failures = report.failures
    passed, total = report.score
    fixed, regressed = _since(report, previous)
    loading = next((failure.kind for failure in failures if failure.phase == "collect"), "")
    told = Disclosed(
        verdict=report.verdict,
        limits=report.limits,
        passed=passed,
        total=total,
        fixed=fixed,
        regressed=regressed,
        loading=loading if report.verdict == "broken" else "",
    )
    if level == "count":
        return told
    view = _View(level, previous, submission)
    told = _more(
        told,
        findings=tuple(map(view.finding, failures)),
        not_run=tuple(view.name(test.nodeid) for test in report.tests if test.outcome == "not_run"),
    )
    if level == "names":
        return told
    told = _more(told, peak_memory_mb=report.measurements.peak_memory_mb or None)
    if level == "io":
        return told
    return _more(
        told,
        reason=_clean(report.reason) if all(report.reason not in failure.message for failure in failures) else "",
        printed=_clean(report.output),
        notes=tuple(map(_clean, report.notes)),
    )


def _more(told: Disclosed, **fields: object) -> Disclosed:
    return Disclosed(**{**told.__dict__, **fields})


def _since(report: Report, previous: Sequence[Report | None]) -> tuple[int | None, int | None]:
    last = next((earlier for earlier in reversed(previous) if earlier is not None), None)
    if last is None:
        return None, None
    before, now = _passing(last), _passing(report)
    known = {test.nodeid for test in last.tests}
    return len((now - before) & known), len(before - now)


def _passing(report: Report) -> set[str]:
    return {test.nodeid for test in report.tests if test.outcome in ("passed", "xpassed")}


class _View:
    """Looks at failures with the eyes of one level: `names`, `io` or `full`."""

    def __init__(self, level: Disclosure, previous: Sequence[Report | None], submission: Submission | None) -> None:
        self.io = level in ("io", "full")
        self.full = level == "full"
        numbered = [(number, report) for number, report in enumerate(previous, 1) if report is not None]
        self.last_passed = {nodeid: number for number, report in numbered for nodeid in _passing(report)}
        self.sources = _sources(submission)
        self.words = _words(self.sources)
        self.knows_submission = submission is not None

    def name(self, nodeid: str, subtest: str | None = None) -> str:
        if self.io:
            told = subtest if subtest and (self.full or subtest.startswith("(")) else ""  # "[message] (parameters)"
            return _clean(f"{nodeid} {told}".rstrip())
        if re.match(r"case\[\d+\] ", nodeid) and "::" not in nodeid:
            return _clean(nodeid)
        path, separator, rest = nodeid.partition("::")
        rest = rest.partition("[")[0]
        if not separator:
            return _clean(path)
        named = all(part.isidentifier() for part in rest.split("::"))
        return _clean(f"{path}::{rest}" if named else f"a test of {path}")

    def finding(self, failure: Failure) -> Finding:
        told: dict[str, object] = {
            "test": self.name(failure.nodeid, failure.subtest),
            "kind": failure.kind,
            "phase": failure.phase,
            "passed_in": self.last_passed.get(failure.nodeid),
        }
        if self.io:
            told.update(self._values(failure))
            told.update(self._place(failure))
        if self.full:
            told.update(self._suite(failure))
        return Finding(**told)  # type: ignore[arg-type]  # the fields of Finding, collected by level

    # --- io -----------------------------------------------------------------

    def _values(self, failure: Failure) -> Iterator[tuple[str, object]]:
        is_case = "::" not in failure.nodeid and failure.nodeid.startswith("case[")
        if is_case and failure.kind != "timeout":
            yield "call", _clean(failure.message)
        elif failure.assertion is not None:
            yield "compared", _comparison(failure.assertion)
        error = failure.exception
        if error is None or error.is_ours:
            return
        yield from _asked(error)
        yield "arguments", tuple(self._arguments(error.message)) if error.type == "AssertionError" else ()
        if failure.assertion is None:
            yield "raised", _told(error) if self._is_of_its_text(error, failure.place or "") else self._error(error)
        yield "causes", tuple(self._causes(error))
        if failure.hypothesis is not None:
            yield "example", _one_line_call(failure.hypothesis.example)

    def _error(self, error: ErrorInfo) -> str:
        """Type and message, as far as the candidate or Python wrote them."""
        if self.full or self._by_candidate(error.frames):
            return _told(error)
        if error.type in _PYTHONS_OWN and error.type != "AssertionError":
            return _told(error) if self._of_candidate(error.message) else error.type
        return ""

    def _is_of_its_text(self, error: ErrorInfo, place: str) -> bool:
        """Whether these are Python's words on the submission's syntax: such an error names its place itself."""
        path, _, line = place.rpartition(":")
        named = f"({path.rpartition('/')[2]}, line {line})"
        return error.type in _SYNTAX and self._known(place) and error.message.endswith(named)

    def _of_candidate(self, message: str) -> bool:
        """Whether these are Python's words on something that the submission defines, or on no name of the suite's."""
        found = next(filter(None, (pattern.fullmatch(message) for pattern in _PYTHONS_WORDS)), None)
        if found is None:
            return False
        names_more = len(re.findall(_QUOTED, message)) > message.count(f"'{found['whose']}'")
        allowed = self.words | {"<locals>"} if names_more else self.words | _OF_PYTHON
        return set(found["whose"].split(".")) <= allowed

    def _by_candidate(self, frames: tuple[Frame, ...]) -> bool:
        last = next((frame for frame in reversed(frames) if frame.owner != "library"), None)
        return last is not None and self._own(last)

    def _own(self, frame: Frame) -> bool:
        known = self.full or not self.knows_submission or frame.path in self.sources
        return frame.owner == "submission" and known

    def _causes(self, error: ErrorInfo) -> Iterator[str]:
        outer = error
        while (cause := outer.cause) is not None:
            told = self._error(cause)
            if told:
                yield ("because of " if outer.explicit_cause else "while handling ") + told
            outer = cause
        for inner in error.group:
            told = self._error(inner)
            if told:
                yield f"with {told}"

    def _arguments(self, message: str) -> Iterator[str]:
        """What functions were called with, of pytest's explanation of an assertion.

        Everything before the last `assert` may be the suite's own message.
        """
        lines = message.splitlines()
        start = max((index for index, line in enumerate(lines) if line.startswith("assert ")), default=len(lines))
        for line in lines[start + 1 :]:
            found = _WHERE.fullmatch(line)
            shown = _call(found["call"], None if self.full else self.words) if found else None
            if found and shown:
                yield _clean(f"{shown} returned {found['result']}")

    def _place(self, failure: Failure) -> Iterator[tuple[str, object]]:
        last = next((frame for frame in reversed(failure.frames) if self._own(frame)), None)
        if last is not None:
            function = f" in {last.function}" if self.full or last.function in self.words else ""
            yield "place", _clean(f"{last.path}:{last.line}{function}")
            yield "line", _clean(last.source if self.full else self._source(last.path, last.line))
        elif failure.place and (self.full or not self.knows_submission or self._known(failure.place)):
            path, _, line = failure.place.rpartition(":")
            yield "place", _clean(failure.place)
            yield "line", _clean(self._source(path, int(line) if line.isdigit() else 0))
        if failure.stack:
            yield "stuck", tuple(self._stuck(failure.stack))

    def _known(self, place: str) -> bool:
        return place.rpartition(":")[0] in self.sources

    def _source(self, path: str, line: int) -> str:
        lines = self.sources.get(path, [])
        return lines[line - 1].strip() if 0 < line <= len(lines) else ""

    def _stuck(self, stack: str) -> Iterator[str]:
        """The stack, innermost first, without libraries and without us."""
        for found in _STACK_LINE.finditer(stack):
            path = _inside(found["path"])
            if path is None or not (self.full or path in self.sources):
                continue
            function = f" in {found['function']}" if self.full or found["function"] in self.words else ""
            source = self._source(path, int(found["line"]))
            yield _clean(f"{path}:{found['line']}{function}" + (f": {source}" if source else ""))

    # --- full ---------------------------------------------------------------

    def _suite(self, failure: Failure) -> Iterator[tuple[str, object]]:
        own = [frame for frame in failure.frames if frame.owner != "library"]
        last = next((frame for frame in reversed(own) if frame.owner == "submission"), None)
        if last is not None:
            yield "locals", tuple((_clean(name), _clean(value)) for name, value in last.locals.items())
        test = next((frame for frame in reversed(own) if frame.owner == "suite"), None)
        if test is not None:
            yield "test_place", _clean(f"{test.path}:{test.line}")
            yield "test_line", _clean(test.source)
        told = {(frame.path, frame.function) for frame in (last, test) if frame is not None}
        between = [frame for frame in own if (frame.path, frame.function) not in told]
        yield (
            "calls",
            tuple(_clean(f"{frame.path}:{frame.line} in {frame.function}: {frame.source}") for frame in between),
        )
        yield "explanation", _explanation(failure)
        texts = (("stdout", failure.stdout), ("stderr", failure.stderr), ("log", failure.log))
        yield "printed", tuple((name, _clean(text)) for name, text in texts if text.strip())
        yield "warnings", tuple(_clean(f"{warning.category}: {warning.message}") for warning in failure.warnings)


def _told(error: ErrorInfo) -> str:
    return _clean(f"{error.type}: {error.message}" if error.message.strip() else error.type)


def _sources(submission: Submission | None) -> Mapping[str, list[str]]:
    files = submission.files if submission is not None else {}
    return {path: data.decode("utf-8", "replace").splitlines() for path, data in files.items()}


def _words(sources: Mapping[str, list[str]]) -> frozenset[str]:
    """Every name that the submission holds, and those of its modules."""
    texts = ["\n".join(lines) for lines in sources.values()]
    return frozenset(re.findall(r"\w+", "\n".join([*texts, *sources])))


def _comparison(assertion: Assertion) -> Comparison:
    return Comparison(_clean(assertion.operator), _clean(assertion.left), _clean(assertion.right))


_PYTHONS_OWN = frozenset(name for name in dir(builtins) if name.endswith(("Error", "Exception", "Exit", "Iteration")))
_SYNTAX = ("SyntaxError", "IndentationError", "TabError")
_HOW_MANY = r"(no|\d+|from \d+ to \d+)"
_CALLED = r"(?P<whose>[\w.<>]+)\(\)"
_QUOTED = r"'[\w.]+'"
_PYTHONS_WORDS = tuple(
    map(
        re.compile,
        (
            rf"{_CALLED} takes {_HOW_MANY} (positional )?arguments?( but \d+ w\w+ given| \(\d+ given\))?",
            rf"{_CALLED} missing \d+ required (positional|keyword-only) arguments?: {_QUOTED}(,? (and )?{_QUOTED})*",
            rf"{_CALLED} got (an unexpected keyword argument|multiple values for argument) {_QUOTED}",
            rf"(module |type object )?'(?P<whose>[\w.]+)'( object)? has no attribute {_QUOTED}",
            r"'(?P<whose>[\w.]+)' object is not (callable|iterable|subscriptable|an iterator)",
            rf"cannot import name {_QUOTED} from '(?P<whose>[\w.]+)'( \(\S*\))?",
        ),
    )
)
_OF_PYTHON = frozenset({*dir(builtins), "NoneType", "function", "generator", "coroutine", "<locals>", "<lambda>"})
_ASKED = (
    re.compile(r"DID NOT RAISE (?:<class '(?P<expected>[\w.]+)'>|(?P<plain>[\w.]+))"),
    re.compile(
        r"Regex pattern did not match\.\n"
        r" +(?:Expected regex|Regex): (?P<regex>.*)\n +(?:Actual message|Input): (?P<got>.*)",
        re.DOTALL,
    ),
)


def _asked(error: ErrorInfo) -> Iterator[tuple[str, object]]:
    """What `pytest.raises` wanted, in its own words."""
    for pattern in _ASKED:
        found = pattern.fullmatch(error.message.strip())
        if found is None or error.type not in ("Failed", "AssertionError"):
            continue
        parts = found.groupdict()
        if "regex" in parts:
            yield "expected", _clean(f"an exception whose message matches {parts['regex']}")
            yield "got", _clean(f"the message {parts['got']}")
        else:
            yield "expected", f"{parts['expected'] or parts['plain']} to be raised"
            yield "got", "no exception"


_WHERE = re.compile(r" \+ +(?:where|and) +(?P<result>.*?) = (?P<call>[\w.]+\(.*\))")


def _call(text: str, words: frozenset[str] | None) -> str | None:
    """A call as pytest shows it. With `words`, only names in it that are the candidate's own are told."""
    name, _, rest = text.partition("(")
    if words is None:
        return text
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(rest[:-1]).readline))
    except (tokenize.TokenError, SyntaxError):
        return None
    shown, depth = rest[:-1], 0
    for token, after in reversed(list(itertools.pairwise(tokens))):
        depth += (token.string in _CLOSING) - (token.string in _OPENING)
        if depth == 0 and token.type == tokenize.NAME and after.string == "=" and token.string not in words:
            shown = shown[: token.start[1]] + shown[after.end[1] :]
    return f"{name if set(name.split('.')) <= words else 'a call with '}({shown})"


_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")
_STACK_LINE = re.compile(r'File "(?P<path>[^"\n]*)", line (?P<line>\d+) in (?P<function>.*)')
# Where the guest puts a job's files: folders of /job in a sandbox, or of a temporary folder of ours.
# A path begins after a blank or a bracket: or else a hostile text is searched again from each of its slashes.
_SEGMENT = r"/[^/\s'\"()]+"
_START = r"(?<![^\s'\"(\[=:,])"
_OURS = re.compile(
    rf"{_START}(?:{_SEGMENT})*?/(?:reproof-[^/\s'\"]+|job)(?:/judge)?/(?P<folder>work|candidate|tmp|home)(?:/|(?![\w.-]))"
)
_LIBRARY = re.compile(rf"{_START}(?:{_SEGMENT})*?/(?:(?:site|dist)-packages|lib/python3\.\d+)/(?!site-|dist-)")
_ADDRESS = re.compile(r" at 0x[0-9a-f]{6,}")
_NOISE = re.compile(r"^[ \t]*(Use -v.*|.*, use -vv to show|\.\.\.Full output truncated.*|Full diff:)$\n?", re.MULTILINE)


def _inside(path: str) -> str | None:
    """The path inside the workspace; None for libraries and for our own files."""
    path = _OURS.sub(_seen_from_inside, path)
    return None if path.startswith(("/", "<")) else path


def _seen_from_inside(found: re.Match[str]) -> str:
    """The workspace is the current folder; the others stand where they usually do."""
    slash = "/" if found[0].endswith("/") else ""
    if found["folder"] in ("work", "candidate"):
        return "" if slash else "."
    return f"/{found['folder']}{slash}"


def _clean(text: str) -> str:
    """Without what belongs to the sandbox and not to the code: its paths, addresses, control characters."""
    text = _OURS.sub(_seen_from_inside, text)
    for pattern in (_LIBRARY, _ADDRESS):
        text = pattern.sub("", text)
    return plain(text)


def _one_line_call(example: str) -> str:
    lines = [re.sub(r"\s+# or any other generated value$", "", line).strip() for line in example.splitlines()]
    return _clean(re.sub(r",\)$", ")", "".join(line + " " * line.endswith(",") for line in lines).replace(", )", ")")))


def _explanation(failure: Failure) -> str:
    """What the suite says of it: its message, and pytest's view of the assertion."""
    error = failure.exception
    if error is None or error.is_ours:
        return _clean(failure.message) if failure.kind not in ("assertion", "timeout", "lost") else ""
    notes = [note for note in error.notes if not re.match(r"(Falsifying|Failing|Explicit|You can reproduce)", note)]
    adds = failure.kind == "assertion" and not dict(_asked(error)) and not _repeats(error.message, failure.assertion)
    said = error.message if adds else ""
    return _clean(_NOISE.sub("", "\n".join([said, *notes]))).strip("\n")


def _repeats(message: str, assertion: Assertion | None) -> bool:
    """unittest's `1 != 2` says nothing that the values do not."""
    return assertion is not None and message.strip() == f"{assertion.left} != {assertion.right}"
