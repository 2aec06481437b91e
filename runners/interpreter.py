"""The Python that runs here, as something that a sandbox can hold.

A sandbox sees the interpreter's own library and a handful of packages that every
job may rely on, never the caller's site-packages: what a candidate can import
must not depend on what else happens to be installed beside Reproof.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

__all__ = ["PACKAGES", "copy_packages", "packages", "python_version"]

PACKAGES = ("pytest", "pytest-asyncio", "pytest-xdist", "hypothesis")
"""What every sandbox that we build holds, with what these need."""


def python_version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


@cache  # reading the metadata takes longer than starting a sandbox, and every sandbox is named by it
def packages() -> dict[str, str]:
    """Name → version of `PACKAGES` and all that they require, as installed here."""
    return {found.name.lower(): found.version for found in _closure(PACKAGES)}


def _closure(names: tuple[str, ...]) -> Iterator[metadata.Distribution]:
    seen: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in seen:
            continue
        seen.add(name)
        found = metadata.distribution(name)
        yield found
        for line in found.requires or ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)


def copy_packages(site: Path) -> None:
    """Copy `PACKAGES` and all that they require into a site-packages directory."""
    for found in _closure(PACKAGES):
        for file in found.files or ():
            if ".." in file.parts or file.suffix == ".pyc":
                continue  # console scripts, and caches that name other paths
            target = site / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(file.locate()), target)
