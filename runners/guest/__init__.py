"""The program inside every sandbox, and how it gets there.

A sandbox needs Python 3.9 and pytest, and nothing of ours: `COMMAND` starts its
own interpreter on a few lines that read the rest of the guest from stdin, so
the same source runs in every image. The modules beside this one import the
standard library and pytest only, and refer to each other by relative imports:
the host knows them as `runners.guest.*`, the sandbox as `reproof_guest.*`.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import marshal
import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["COMMAND", "VARIABLES", "bundle"]

_BOOT = """\
import gc, sys, os, zlib, json, types
gc.disable()  # until all that is needed is imported: nothing of it is garbage
sys.path[:] = [p for p in sys.path if p]
def take(n):
    got = b""
    while len(got) < n:
        more = os.read(0, n - len(got))
        if not more: raise SystemExit("the host closed the stream before the guest was complete")
        got += more
    return got
boot, settings = (json.loads(zlib.decompress(take(int.from_bytes(take(4), "big")))) for _ in range(2))
package = types.ModuleType("reproof_guest")
package.__path__ = []
sys.modules["reproof_guest"] = package
importer = types.ModuleType("reproof_guest.importer")
sys.modules["reproof_guest.importer"] = importer
exec(compile(boot["sources"]["importer"], "<reproof_guest.importer>", "exec"), importer.__dict__)
importer.install(boot["sources"], boot["compiled"], boot["magic"])
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


def _program() -> dict[str, Any]:
    """The guest's modules as source, for any Python, and compiled, for one like ours: a fifth of a start."""
    compiled = {name: compile(source, f"<reproof_guest.{name}>", "exec") for name, source in _sources().items()}
    return {
        "sources": _sources(),
        "compiled": {name: base64.b64encode(marshal.dumps(code)).decode() for name, code in compiled.items()},
        "magic": importlib.util.MAGIC_NUMBER.hex(),
    }


def bundle(settings: Mapping[str, Any]) -> bytes:
    """What to write to the guest's stdin before anything else."""
    return _packed_program() + _packed(settings)


@cache
def _packed_program() -> bytes:
    return _packed(_program())


def _packed(data: Mapping[str, Any]) -> bytes:
    packed = zlib.compress(json.dumps(dict(data)).encode(), 1)
    return len(packed).to_bytes(4, "big") + packed
