"""Who owns a container: labels that outlive the owner, and whether it is still alive.

A process id alone does not say: it is used again, means something else in
another pid namespace, and nothing on another machine.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

__all__ = ["CREATED", "HOST", "PID", "START", "is_alive", "labels", "of_this_host"]

PID, START, HOST, CREATED = "reproof.owner.pid", "reproof.owner.start", "reproof.host", "reproof.created"


def labels(pid: int | None = None) -> dict[str, str]:
    """What marks a container as this process's, or as that of another on this machine."""
    pid = pid or os.getpid()
    created = datetime.now(UTC).isoformat(timespec="seconds")
    return {PID: str(pid), START: _started(pid) or "", HOST: _this_host(), CREATED: created}


def of_this_host() -> str:
    """The label of every container whose owner can be looked for from here."""
    return f"{HOST}={_this_host()}"


def is_alive(found: Mapping[str, str]) -> bool:
    """Whether the owner of this host's container with these labels still runs."""
    pid = found.get(PID, "")
    return pid.isdigit() and _started(int(pid)) == found.get(START)


def _this_host() -> str:
    """Where a process id means the same process: this machine, and this pid namespace of it."""
    machine, namespace = Path("/etc/machine-id"), Path("/proc/self/ns/pid")
    identity = machine.read_text().strip() if machine.exists() else ""
    return f"{socket.gethostname()}/{identity}/{namespace.readlink() if namespace.is_symlink() else ''}"


def _started(pid: int) -> str | None:
    """When this process started, so that its id means no other; None once it is dead."""
    if not os.path.isdir("/proc/self"):
        asked = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
        return asked.stdout.strip() or None
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return None if state in "ZX" else f"{boot}/{fields[18]}"
