"""The battery under fixtures/cheats, as submissions. Nothing of it is imported here."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import Submission, Suite

FOLDER = Path(__file__).parents[1] / "fixtures" / "cheats"
TASK = FOLDER / "task"
SUITE = Suite.from_path(TASK / "test_solution.py")
HONEST, WRONG = "honest", "wrong"


@dataclass(frozen=True)
class Cheat:
    attack: str
    name: str
    technique: str
    files: dict[str, str]
    in_process: str = "rejected"
    separate: str = "rejected"
    """`rejected`; `unseen`: only inputs that it has not seen refute it; `harmless`: right, its trick finds nothing."""

    @property
    def id(self) -> str:
        return f"{self.attack}-{self.name}"

    @property
    def submission(self) -> Submission:
        return Submission.from_files(self.files)


def battery() -> list[Cheat]:
    """All of it, the honest and the wrong ones too."""
    return [cheat for path in sorted(FOLDER.glob("*.toml")) for cheat in _read(path)]


def _read(path: Path) -> list[Cheat]:
    entries = tomllib.loads(path.read_text("utf-8"))["cheat"]
    return [_cheat(path.stem, entry) for entry in entries]


def _cheat(attack: str, entry: dict[str, Any]) -> Cheat:
    right = attack in (HONEST, WRONG) or entry.get("reference", False)
    base = "" if entry.get("whole") else (TASK / ("reference.py" if right else "wrong.py")).read_text("utf-8")
    code = "\n".join([entry["code"].lstrip("\n"), base, entry.get("append", "")])
    return Cheat(
        attack=attack,
        name=entry["name"],
        technique=entry["technique"],
        files={"solution.py": code, **entry.get("files", {})},
        in_process=entry.get("in_process", "rejected"),
        separate=entry.get("separate", "rejected"),
    )
