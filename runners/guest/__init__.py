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
import json
import marshal
import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["COMMAND", "VARIABLES", "bundle", "program"]

_BOOT = """\
import gc, sys, os, json, types
gc.disable()  # until all that is needed is imported: nothing of it is garbage
sys.path[:] = [p for p in sys.path if p]
def take(n):
    got = b""
    while len(got) < n:
        more = os.read(0, n - len(got))
        if not more: raise SystemExit("the host closed the stream before the guest was complete")
        got += more
    return got
def piece():
    return take(int.from_bytes(take(4), "big"))
head = json.loads(piece())
package = types.ModuleType("reproof_guest")
package.__path__ = []
sys.modules["reproof_guest"] = package
importer = types.ModuleType("reproof_guest.importer")
sys.modules["reproof_guest.importer"] = importer
exec(compile(head["importer"], "<reproof_guest.importer>", "exec"), importer.__dict__)
importer.install(head["magic"], head["sizes"], piece(), piece())
settings = json.loads(piece())
from reproof_guest import supervisor
supervisor.main(settings)
"""

COMMAND = ("-s", "-u", "-c", _BOOT)
"""Arguments for the sandbox's own `python`."""

VARIABLES = {
    # The interpreter that a job is forked from starts before the job is known, so the
    # hash seed is the same for all: the same job iterates over its sets in the same order.
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
}
"""The whole environment that a guest starts with."""


@cache
def _sources() -> dict[str, str]:
    here = Path(__file__).parent
    return {path.stem: path.read_text("utf-8") for path in here.glob("*.py") if path.stem != "__init__"}


def bundle(settings: Mapping[str, Any], program: bytes | None = None) -> bytes:
    """What to write to the guest's stdin before anything else."""
    return (program or _program()) + _piece(json.dumps(dict(settings)).encode())


@cache
def _program() -> bytes:
    return program(_sources())


def program(sources: Mapping[str, str], *, compiled: bool = True) -> bytes:
    """The guest's modules compiled, for a Python like ours, and as source, for any other and for those who ask."""
    codes = {name: _compiled(name, source) for name, source in sources.items()} if compiled else {}
    head = {
        "importer": sources["importer"],
        "magic": importlib.util.MAGIC_NUMBER.hex() if compiled else "",
        "sizes": {name: len(code) for name, code in codes.items()},
    }
    code, text = b"".join(codes.values()), json.dumps(dict(sources)).encode()
    pieces = (json.dumps(head).encode(), zlib.compress(code, 1), zlib.compress(text))
    return b"".join(map(_piece, pieces))


def _compiled(name: str, source: str) -> bytes:
    return marshal.dumps(compile(source, f"<reproof_guest.{name}>", "exec"))


def _piece(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data
