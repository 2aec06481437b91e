"""The program inside every sandbox, and how it gets there.

A sandbox needs Python 3.9 and pytest, and nothing of ours: `COMMAND` starts its
own interpreter on a few lines that read the rest of the guest from stdin, so
the same source runs in every image. The modules beside this one import the
standard library and pytest only, and refer to each other by relative imports:
the host knows them as `runners.guest.*`, the sandbox as `reproof_guest.*`.

Every new sandbox waits for these imports, and with a fresh one for each job they are most of
what it costs beside the sandbox itself. So a module that takes long to import and is seldom
needed is imported where it is used, and `TYPE_CHECKING` is a constant: `typing` takes longer
than the modules that would ask it.
"""

from __future__ import annotations

import importlib.util
import marshal
import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["COMMAND", "bundle", "program", "variables"]

_BOOT = """\
import gc, sys, os, marshal
from _frozen_importlib_external import MAGIC_NUMBER
gc.disable()  # until all that is needed is imported: nothing of it is garbage
sys.path[:] = [p for p in sys.path if p]
def take(n):
    got = bytearray()
    while len(got) < n:
        more = os.read(0, n - len(got))
        if not more: raise SystemExit("the host closed the stream before the guest was complete")
        got += more
    return got
def piece():
    return bytes(take(int.from_bytes(take(4), "big")))
magic, code, source = marshal.loads(piece())
package = type(sys)("reproof_guest")
package.__path__ = []
sys.modules["reproof_guest"] = package
importer = type(sys)("reproof_guest.importer")
sys.modules["reproof_guest.importer"] = importer
known = magic == MAGIC_NUMBER
exec(marshal.loads(code) if known else compile(source, "<reproof_guest.importer>", "exec"), importer.__dict__)
codes = marshal.loads(piece())
importer.install(codes if known else {}, piece())
settings = marshal.loads(piece())
from reproof_guest import supervisor
supervisor.main(settings)
"""

COMMAND = ("-s", "-u", "-c", _BOOT)
"""Arguments for the sandbox's own `python`."""

_HASH_SEED = "PYTHONHASHSEED"
_VARIABLES = {
    _HASH_SEED: "0",  # the same job iterates over its sets in the same order
    "PYTHONDONTWRITEBYTECODE": "1",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
}


def variables(given: Mapping[str, str]) -> dict[str, str]:
    """The whole environment that a guest starts with, for jobs that get these variables.

    Most of those are set when the job is there. The interpreter that it is forked from has read
    its hash seed by then.
    """
    return {**_VARIABLES, **{name: value for name, value in given.items() if name == _HASH_SEED}}


@cache
def _sources() -> dict[str, str]:
    here = Path(__file__).parent
    return {path.stem: path.read_text("utf-8") for path in here.glob("*.py") if path.stem != "__init__"}


def bundle(settings: Mapping[str, Any], program: bytes | None = None) -> bytes:
    """What to write to the guest's stdin before anything else."""
    return (program or _program()) + _piece(_plain(dict(settings)))


@cache
def _program() -> bytes:
    return program(_sources())


def program(sources: Mapping[str, str], *, compiled: bool = True) -> bytes:
    """The guest's modules compiled, for a Python like ours, and as source, for any other and for those who ask."""
    codes = {name: zlib.compress(_compiled(name, source)) for name, source in sources.items()} if compiled else {}
    magic = importlib.util.MAGIC_NUMBER if compiled else b""
    importer = sources["importer"]
    head = (magic, _compiled("importer", importer) if compiled else b"", importer)
    pieces = (_plain(head), _plain(codes), zlib.compress(_plain(dict(sources))))
    return b"".join(map(_piece, pieces))


def _compiled(name: str, source: str) -> bytes:
    return marshal.dumps(compile(source, f"<reproof_guest.{name}>", "exec"))


def _plain(data: Any) -> bytes:
    """As every Python can read it; the package that reads JSON takes longer to import than all of this to be read."""
    return marshal.dumps(data, 2)


def _piece(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data
