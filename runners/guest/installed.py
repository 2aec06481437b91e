"""Which pytest there is, and whether there are plugins that we know nothing of: they may do anything with tests."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from _pytest.config import Config

KNOWN_DISTRIBUTIONS = ("hypothesis", "pytest-asyncio", "pytest-xdist")


def has_other_plugins(config: Config) -> bool:
    found = config.pluginmanager.list_plugin_distinfo()
    return any(distribution.project_name.lower() not in KNOWN_DISTRIBUTIONS for _, distribution in found)


def pytest() -> dict[str, Any]:
    """What can be said of pytest here by the folders that pip leaves: its version, and whether we know its plugins."""
    found: dict[str, Any] = {"pytest": None, "direct": True}
    for folder in sys.path:
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            project, _, version = name[: -len(".dist-info")].partition("-")
            if name.endswith(".dist-info"):
                if project == "pytest":
                    found["pytest"] = version
                elif project.lower().replace("_", "-") not in KNOWN_DISTRIBUTIONS:
                    found["direct"] = found["direct"] and not _has_plugin(os.path.join(folder, name))
            elif name.endswith((".egg-info", ".egg", ".egg-link")):
                found["direct"] = False  # another age's way to tell
    return found


def _has_plugin(folder: str) -> bool:
    try:
        with open(os.path.join(folder, "entry_points.txt")) as file:
            return "pytest11" in file.read()
    except FileNotFoundError:
        return False
