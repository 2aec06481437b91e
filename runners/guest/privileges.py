"""Who may do what: the supervisor takes care not to be looked into; a job's process gives up what it does not need.

Before the first line of candidate code it has limits, another user id, no rights and fewer system calls.
"""

from __future__ import annotations

import os
import resource
import struct

from .light import call_c, pointer_to

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
PR_SET_SECCOMP = 22
PR_SET_NO_NEW_PRIVS = 38
SECCOMP_MODE_FILTER = 2


def watch_over() -> None:
    """Be one that sees everything end and that nobody sees into, whatever user id it has."""
    call_c("prctl", PR_SET_DUMPABLE, 0, 0, 0, 0)
    call_c("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class acting_as:
    """Have the rights of a job's user, and no others, for a while: what this signals or removes is the job's.

    The real id is that of a bystander, who owns nothing: by ours we could signal our own
    processes, and by the job's user's it could signal us.
    """

    def __init__(self, uid: int | None, bystander: int) -> None:
        self._uid, self._bystander = uid, bystander

    def __enter__(self) -> None:
        if self._uid is not None:
            os.setresgid(self._bystander, self._uid, 0)
            os.setresuid(self._bystander, self._uid, 0)

    def __exit__(self, *_: object) -> None:
        if self._uid is not None:
            os.setresuid(0, 0, 0)
            os.setresgid(0, 0, 0)


def give_up(limits: dict[str, Any], settings: dict[str, Any], uid: int | None, *, trusted: bool) -> None:
    """Keep what a test needs and nothing more; there is no way back. One that is trusted stays closed to others."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("500" if trusted else "1000")  # if memory runs out, this goes and not the supervisor
    except OSError:
        pass
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    _limit(limits, settings["cgroup"])
    if not trusted:
        call_c("prctl", PR_SET_DUMPABLE, 1, 0, 0, 0)  # its own /proc/self is its own again
    if settings["private"]:
        # version 3, this process; effective, permitted and inheritable: none
        call_c("capset", struct.pack("=Ii", 0x20080522, 0), bytes(24))
    os.umask(0o022)


def _limit(limits: dict[str, Any], cgroup: dict[str, str]) -> None:
    cap(resource.RLIMIT_CORE, 0)
    cap(resource.RLIMIT_NOFILE, 1024)
    cap(resource.RLIMIT_FSIZE, limits["disk_mb"] * 1024 * 1024)
    # The supervisor adds up the CPU time of all processes; this is for when it cannot.
    cap(resource.RLIMIT_CPU, int(limits["cpu_seconds"]) + 2)
    if not ("memory" in cgroup or "unified" in cgroup):
        # Far above the limit itself, which is measured: address space is not memory.
        cap(resource.RLIMIT_AS, (limits["memory_mb"] * 4 + 2048) * 1024 * 1024)
    if not ("pids" in cgroup or "unified" in cgroup) and os.getuid() != 0:
        cap(resource.RLIMIT_NPROC, limits["processes"] + 16)


def cap(what: int, value: int) -> None:
    _, hard = resource.getrlimit(what)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(what, (value, value))


# System calls that no test needs and that lead out of the sandbox's limits: other namespaces
# (a new user namespace may mount file systems that count for nothing), keyrings and message
# queues that outlive the job, and the corners of the kernel where its holes have been. As in docker's own profile,
# clone3 is denied as unknown, because its flags cannot be looked at: libc then uses clone.
_CALLS = {
    "x86_64": {
        "arch": 0xC000003E,
        "clone": 56,
        "clone3": 435,
        "prlimit": 302,
        "denied": (
            *(272, 308, 165, 166, 155, 428, 429, 430, 431, 432, 433, 442),  # unshare setns mounts
            *(248, 249, 250, 240, 241),  # keys, message queues
            *(321, 323, 298, 425, 426, 427),  # bpf userfaultfd perf_event_open io_uring
            *(175, 176, 313, 246, 320, 167, 168, 169),  # modules kexec swap reboot
        ),
    },
    "aarch64": {
        "arch": 0xC00000B7,
        "clone": 220,
        "clone3": 435,
        "prlimit": 261,
        "denied": (
            *(97, 268, 40, 39, 41, 428, 429, 430, 431, 432, 433, 442),
            *(217, 218, 219, 180, 181),
            *(280, 282, 241, 425, 426, 427),
            *(105, 106, 273, 104, 294, 224, 225, 142),
        ),
    },
}
CLONE_NEWUSER = 0x10000000
_ALLOW, _EPERM, _ENOSYS = 0x7FFF0000, 0x00050001, 0x00050026
_LOAD, _JEQ, _JGE, _JSET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data


def refuse_calls(settings: dict[str, Any]) -> None:
    """Of a zygote, and so of all its children: gain nothing by starting a program, and call nothing of these."""
    call_c("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if _FILTER and settings["private"]:
        program = struct.pack("HxxxxxxP", len(_FILTER) // 8, 0)[:-8] + pointer_to(_FILTER)
        call_c("prctl", PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0)


def _program(calls: Any) -> bytes:
    """The filter, in the kernel's classic BPF: (code, jump if true, jump if false, operand)."""
    lines = [(_LOAD, 0, 0, _ARCH), (_JEQ, 1, 0, calls["arch"]), (_RETURN, 0, 0, _EPERM), (_LOAD, 0, 0, _NUMBER)]
    lines += [(_JGE, 0, 1, 0x40000000), (_RETURN, 0, 0, _EPERM)]  # the x32 twins of every call
    for number in calls["denied"]:
        lines += [(_JEQ, 0, 1, number), (_RETURN, 0, 0, _EPERM)]
    lines += [(_JEQ, 0, 1, calls["clone3"]), (_RETURN, 0, 0, _ENOSYS)]
    # The limits of another process, be it the supervisor's, are none of a job's business.
    lines += [(_JEQ, 0, 3, calls["prlimit"]), (_LOAD, 0, 0, _FIRST_ARGUMENT)]
    lines += [(_JEQ, 1, 0, 0), (_RETURN, 0, 0, _EPERM), (_LOAD, 0, 0, _NUMBER)]
    lines += [(_JEQ, 0, 3, calls["clone"]), (_LOAD, 0, 0, _FIRST_ARGUMENT)]
    lines += [(_JSET, 0, 1, CLONE_NEWUSER), (_RETURN, 0, 0, _EPERM), (_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("HBBI", *line) for line in lines)


_FILTER = _program(_CALLS[os.uname().machine]) if os.uname().machine in _CALLS else b""
