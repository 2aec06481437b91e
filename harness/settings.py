"""`[tool.reproof]` of the nearest pyproject.toml: the defaults of a project."""

from __future__ import annotations

import tomllib
from pathlib import Path

from runners.choice import NAMES

__all__ = ["default_runner"]


def default_runner() -> str:
    """The project's runner, or `auto`.

    Raises:
        ValueError: the setting is wrong; the message names file and key.
    """
    for folder in (Path.cwd(), *Path.cwd().parents):
        path = folder / "pyproject.toml"
        if path.is_file():
            return _runner_in(path)
    return "auto"


def _runner_in(path: Path) -> str:
    try:
        tool = tomllib.loads(path.read_text("utf-8")).get("tool", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as exc:
        raise ValueError(f"{path}: cannot be read: {exc}") from None
    table = tool.get("reproof", {}) if isinstance(tool, dict) else tool
    if not isinstance(table, dict):
        raise ValueError(f"{path}: tool.reproof is {table!r} and not a table")
    unknown = set(table) - {"runner"}
    if unknown:
        raise ValueError(f"{path}: [tool.reproof] has no key {sorted(unknown)[0]!r}; it knows `runner`")
    runner = table.get("runner", "auto")
    if runner not in NAMES:
        raise ValueError(f"{path}: [tool.reproof] runner = {runner!r}; there are {', '.join(NAMES)}")
    if runner == "process":  # the file may be the candidate's own, on a branch that CI has checked out
        raise ValueError(
            f"{path}: [tool.reproof] runner = 'process' is not a sandbox, and no file can ask for it; "
            "pass --runner process, or runner='process', if that is what you want"
        )
    return str(runner)
