"""What one job can see or change of another in the same sandbox, and in the one beside it: nothing.

Two jobs run one after the other in one sandbox, as a pool of freshness `fork` runs them.
The first leaves something and says so by passing; the second looks for it, and passes if
it is not there. Where the guest does not vouch for its sandbox, the second gets a new one,
as it would from a pool.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from harness import Case, Environment, Limits, Runner, Submission, Suite
from harness.judge import Judgement, judge
from harness.verify import prepare, run_blocking
from runners import session
from runners.session import Guest

from . import test_bubblewrap
from .leftovers import nothing_left

LIMITS = Limits(wall_seconds=30, test_seconds=20, memory_mb=256, processes=48, disk_mb=32, output_kb=1024)

public_python = test_bubblewrap.public_python


@pytest.fixture(params=["bubblewrap", "docker"])
def runner(request: pytest.FixtureRequest) -> Runner:
    ready: Runner = request.getfixturevalue(f"{request.param}_runner")
    return ready


@pytest.fixture(autouse=True)
def leaves_nothing(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Whatever happens inside of a sandbox, nothing of it is left outside."""
    names = request.fixturenames
    ready = request.getfixturevalue("runner" if "runner" in names else "bubblewrap_runner")
    docker_host = request.getfixturevalue("docker_host") if ready.name == "docker" else None
    with nothing_left(tmp_path_factory.mktemp("temporary"), docker_host):
        yield


@dataclass
class Seen:
    """What came of one job."""

    judged: Judgement
    clean: bool
    """Whether the guest vouches that nothing of it is left."""

    @property
    def told(self) -> Any:
        """What the job says: the JSON in the message of its first failure."""
        return json.loads(self.judged.failures[0].exception.message)

    def __repr__(self) -> str:
        shown = [failure.exception and failure.exception.message for failure in self.judged.failures]
        return f"{self.judged.verdict}: {self.judged.reason}\n{shown}\nclean: {self.clean}"


async def run(guest: Guest, suite: Suite, limits: Limits = LIMITS) -> Seen:
    job = prepare(Submission.from_code(""), suite, limits, Environment(), 0)
    outcome = await guest.run(job, last=False)
    return Seen(judge(outcome, suite.cases, limits), await guest.settle())


def suite(code: str) -> Suite:
    return Suite.from_code(dedent(code))


async def _in_turn(runner: Runner, suites: tuple[Suite, ...], limits: Limits) -> list[Seen]:
    seen: list[Seen] = []
    async with AsyncExitStack() as stack:
        for each in suites:
            if not seen or not seen[-1].clean:
                guest = await stack.enter_async_context(session.open_guest(runner, Environment(), limits, preload=True))
            seen.append(await run(guest, each, limits))
    return seen


def in_turn(runner: Runner, *jobs: str | Suite, limits: Limits = LIMITS) -> list[Seen]:
    """What came of these jobs, each in the sandbox of the one before it, or in a new one if that is in doubt."""
    suites = tuple(suite(job) if isinstance(job, str) else job for job in jobs)
    return run_blocking(_in_turn(runner, suites, limits))


def failed(names: Iterable[str], seen: list[Seen]) -> dict[str, tuple[Seen, Seen]]:
    """Of pairs of a job that leaves something and one that looks for it, those that went wrong."""
    pairs = zip(names, seen[::2], seen[1::2], strict=True)
    return {
        name: (leaving, looking)
        for name, leaving, looking in pairs
        if leaving.judged.tests[0].outcome != "passed" or looking.judged.verdict != "passed"
    }


# --- files --------------------------------------------------------------------

FILES = {
    "the workspace": 'open("left", "w").close()',
    "a new folder of the workspace": 'os.makedirs("a/b/c"); open("a/b/c/left", "w").close()',
    "the folder of temporary files": 'open(os.path.join(tempfile.gettempdir(), "left"), "w").close()',
    "/tmp": 'open("/tmp/left", "w").close()',
    "/var/tmp": 'open("/var/tmp/left", "w").close()',
    "shared memory": 'open("/dev/shm/left", "w").close()',
    "the home folder": 'open(os.path.expanduser("~/left"), "w").close()',
    "beside the workspace": 'open("../left", "w").close()',
    "odd names": r'[open(b"/dev/shm/" + name, "w").close() for name in (b"left\n", b"\xffleft", b"left" * 60)]',
    "a locked folder": 'os.makedirs("l/left/left"); os.chmod("l/left", 0); os.chmod("l", 0)',
    "a locked workspace": 'open("left", "w").close(); os.chmod(".", 0)',
    "a locked folder in shared memory": 'os.makedirs("/dev/shm/left/left"); os.chmod("/dev/shm/left", 0)',
    "a read-only file": 'open("/dev/shm/left", "w").close(); os.chmod("/dev/shm/left", 0)',
    "hard links": 'open("left", "w").close(); os.link("left", "../left"); os.link("left", "../home/left")',
    "a fifo": 'os.mkfifo("/dev/shm/left")',
    "a socket": 'socket.socket(socket.AF_UNIX).bind("/dev/shm/left")',
    "a symbolic link to a folder": 'os.symlink("/usr", "/dev/shm/left"); os.symlink("/", "../left")',
    "a symbolic link to itself": 'os.symlink("left", "/dev/shm/left")',
    "a renamed workspace": 'os.rename("/job/work", "/job/left")',
    "a workspace that is a link": 'os.rename("/job/work", "/job/left"); os.symlink("/usr/left", "/job/work")',
    "temporary files that are a link": 'os.rmdir_all("/job/tmp"); os.symlink("/dev/shm", "/job/tmp"); '
    'open("/tmp/left", "w").close()',
    "a folder 5,000 levels deep": "[(os.mkdir('left'), os.chdir('left')) for _ in range(5_000)]",
    "10,000 files": '[open(f"/dev/shm/left{n}", "w").close() for n in range(10_000)]',
    "an open file that is deleted": 'file = open("/dev/shm/left", "w"); os.fork() or time.sleep(60)',
}

LEAVES_FILES = """
import os, shutil, socket, tempfile, time

os.rmdir_all = shutil.rmtree

def test_leave():
    {code}
"""

FINDS_FILES = """
import os

def test_look():
    found = []
    for top in ("/job", "/dev/shm", "/tmp/", "/var/tmp/", os.path.expanduser("~")):
        for folder, folders, names in os.walk(os.fsencode(top), onerror=print):
            found += [folder + b"/" + name for name in (*folders, *names) if b"left" in name]
    assert not found
    assert os.listdir("/dev/shm") == []
    assert sorted(os.listdir("/job")) == ["home", "tmp", "work"]
    assert os.listdir("/job/home") == []
    assert not set(os.listdir()) - {"solution.py", "test_solution.py", "__pycache__", ".pytest_cache", ".hypothesis"}
"""


@pytest.mark.parametrize("code", FILES.values(), ids=FILES)
def test_files_do_not_stay(bubblewrap_runner, code):
    """
    Whatever a job writes, wherever and however well it is locked or linked, the next one does not find.
    """
    leaving, looking = in_turn(bubblewrap_runner, LEAVES_FILES.format(code=code), FINDS_FILES)

    assert leaving.judged.tests[0].outcome == "passed", leaving
    assert looking.judged.verdict == "passed", looking


def test_files_do_not_stay_in_a_container(docker_runner):
    """
    Nor does it in a container, from one job to the next and the one after that.
    """
    leaves = [LEAVES_FILES.format(code=code) for code in FILES.values()]
    seen = in_turn(docker_runner, *[job for leave in leaves for job in (leave, FINDS_FILES)])

    assert failed(FILES, seen) == {}


def test_there_is_no_other_place_to_write_to(runner):
    """
    Of all folders of the file system, those in which a job can leave anything are the ones that are emptied.
    """
    walks = """
    import json, os

    def test_walk():
        found = []
        for folder, folders, _ in os.walk("/"):
            folders[:] = [name for name in folders if folder != "/" or name not in ("proc", "sys")]
            try:
                with open(os.path.join(folder, ".left"), "x"):
                    found.append(folder)
            except OSError:
                pass
        raise Exception(json.dumps(found))
    """
    first, second = in_turn(runner, walks, walks)

    assert all(folder.startswith(("/job", "/dev/shm", "/dev/mqueue")) for folder in first.told)
    assert second.told == first.told


def test_files_that_anyone_could_change_are_not_changed(runner):
    """
    No file outside of the emptied folders can be written to, kernel settings and other processes' entries included.
    """
    (seen,) = in_turn(
        runner,
        """
        import os

        def is_file(path):
            return os.path.isfile(path) and not os.path.islink(path)

        def test_walk():
            found = []
            for folder, folders, names in os.walk("/"):
                if folder == "/":
                    folders[:] = [name for name in folders if name not in ("job", "proc")]
                if folder in ("/dev/shm", "/dev/pts", "/dev/mqueue", "/dev/fd"):
                    continue
                paths = [os.path.join(folder, name) for name in names]
                found += [path for path in paths if is_file(path) and os.access(path, os.W_OK)]
            assert not found

        def test_kernel():
            found = []
            for top in ("/proc/sys", "/proc/1"):
                for folder, folders, names in os.walk(top):
                    for name in names:
                        try:  # some can be opened by anyone, and refuse to be written to
                            os.write(os.open(os.path.join(folder, name), os.O_WRONLY), b"0")
                        except OSError:
                            continue
                        found.append(os.path.join(folder, name))
            assert not found
        """,
    )

    assert seen.judged.verdict == "passed", seen


def test_a_job_has_its_whole_disk(runner):
    """
    One job fills the disk and the shared memory, and the next has all of both.
    """
    fills = """
    import errno, os

    def fill(folder):
        size = 0
        try:
            for n in range(10_000):
                with open(os.path.join(folder, f"f{n}"), "wb", 0) as file:
                    size += file.write(bytes(1 << 18))
        except OSError as exc:
            assert exc.errno == errno.ENOSPC
        return size

    def test_fill():
        assert fill("/dev/shm") >= 28 << 20
        assert fill("/job/home") >= 28 << 20
    """
    first, second = in_turn(runner, fills, fills)

    passed = [test.outcome for seen in (first, second) for test in seen.judged.tests]
    assert passed == ["passed", "passed"], (first, second)


def test_a_job_has_its_whole_memory(runner):
    """
    What one job kept in memory does not count for the next.
    """
    uses = """
    def test_use():
        open("/dev/shm/held", "wb").write(bytes(24 << 20))
        kept = bytearray(150 << 20)
        assert len(kept)
    """
    verdicts = [seen.judged.verdict for seen in in_turn(runner, uses, uses, uses)]

    assert verdicts == ["passed", "passed", "passed"]


def test_one_that_ran_out_of_memory_does_not_hurt_the_next(runner):
    """
    A job that is stopped for its memory leaves a sandbox in which the next runs, or none.
    """
    first, second = in_turn(
        runner, "def test_use():\n    kept = b'x' * (2 << 30)", "def test_use():\n    kept = b'x' * (64 << 20)"
    )

    assert first.judged.verdict in ("out_of_memory", "failed"), first
    assert second.judged.verdict == "passed", second


# --- processes ----------------------------------------------------------------

PROCESSES = {
    "a child": "os.fork() or live()",
    "a daemon": "os.fork() or (os.setsid(), os.fork() or live(), os._exit(0))",
    "one that ignores signals": "os.fork() or (os.setsid(), [ignore(n) for n in range(1, 65)], live())",
    "one that is stopped": "os.fork() or (os.setsid(), os.kill(os.getpid(), signal.SIGSTOP), live())",
    "one that is traced": "os.fork() or (libc.ptrace(0, 0, 0, 0), os.kill(os.getpid(), signal.SIGSTOP), live())",
    "one whose first thread has ended": "os.fork() or (threading.Thread(target=live).start(), libc.syscall(60, 0))",
    "one that is always another": "os.fork() or flee()",
    "thirty": "[os.fork() or live() for _ in range(30)]",
}

LEAVES_PROCESSES = """
import ctypes, os, signal, threading, time

libc = ctypes.CDLL(None)

def live():
    while True:
        time.sleep(60)

def flee():
    while True:
        if os.fork():
            os._exit(0)
        os.setsid()

def ignore(number):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass

def test_leave():
    {code}
"""

FINDS_PROCESSES = """
import os

def test_look():
    processes = [name for name in os.listdir("/proc") if name.isdigit()]
    assert len(processes) == 4, processes  # the supervisor, its two zygotes, this job
"""


@pytest.mark.parametrize("code", PROCESSES.values(), ids=PROCESSES)
def test_processes_do_not_stay(bubblewrap_runner, code):
    """
    However a process hides from its end, it has come before the next job starts.
    """
    leaving, looking = in_turn(bubblewrap_runner, LEAVES_PROCESSES.format(code=code), FINDS_PROCESSES)

    assert leaving.judged.verdict == "passed", leaving
    assert looking.judged.verdict == "passed", looking


def test_processes_do_not_stay_in_a_container(docker_runner):
    """
    Nor does one hide in a container.
    """
    leaves = [LEAVES_PROCESSES.format(code=code) for code in PROCESSES.values()]
    seen = in_turn(docker_runner, *[job for leave in leaves for job in (leave, FINDS_PROCESSES)])

    assert failed(PROCESSES, seen) == {}


# --- shared memory, queues, sockets ---------------------------------------------

KERNEL_OBJECTS = {
    "System V shared memory": (
        "assert libc.shmget(4711, 4096, 0o1666) >= 0",
        "assert libc.shmget(4711, 0, 0) == -1 and rows('shm') == 0",
    ),
    "System V semaphores": (
        "assert libc.semget(4711, 2, 0o1666) >= 0",
        "assert libc.semget(4711, 0, 0) == -1 and rows('sem') == 0",
    ),
    "System V message queues": (
        "assert libc.msgget(4711, 0o1666) >= 0",
        "assert libc.msgget(4711, 0) == -1 and rows('msg') == 0",
    ),
    "POSIX message queues": (
        "os.umask(0); assert libc.mq_open(b'/left', os.O_CREAT | os.O_RDWR, 0o666, None) >= 0 or refused()",
        "assert libc.mq_open(b'/left', os.O_RDONLY) == -1",
    ),
    "POSIX shared memory": (
        "assert libc.shm_open(b'/left', os.O_CREAT | os.O_RDWR, 0o666) >= 0",
        "assert libc.shm_open(b'/left', os.O_RDWR, 0o666) == -1",
    ),
    "POSIX semaphores": (
        "assert libc.sem_open(b'/left', os.O_CREAT, 0o666, 1)",
        "assert not libc.sem_open(b'/left', 0)",
    ),
    "multiprocessing": (
        "from multiprocessing import shared_memory as s; os.fork() or s.SharedMemory('left', True, 64); ",
        "assert not os.path.exists('/dev/shm/left')",
    ),
    "an abstract socket": (
        "s = socket.socket(socket.AF_UNIX); s.bind('\\0left'); s.listen(); os.fork() or time.sleep(60)",
        "assert socket.socket(socket.AF_UNIX).connect_ex('\\0left') == errno.ECONNREFUSED",
    ),
    "a listening port": (
        "s = socket.create_server(('127.0.0.1', 8000)); os.fork() or time.sleep(60)",
        "assert socket.socket().connect_ex(('127.0.0.1', 8000)) == errno.ECONNREFUSED",
    ),
    "a port that was just used": (
        "s = socket.create_server(('127.0.0.1', 8000)); c = socket.create_connection(('127.0.0.1', 8000)); "
        "d, _ = s.accept(); d.close(); c.recv(1); c.close(); s.close()",
        "socket.socket().bind(('127.0.0.1', 8000))",
    ),
    "traces of connections": (
        "s = socket.create_server(('127.0.0.1', 8000)); c = socket.create_connection(('127.0.0.1', 8000)); "
        "d, _ = s.accept(); d.close(); c.recv(1); c.close(); s.close()",
        "assert len(open('/proc/net/tcp').readlines()) == 1",
    ),
    "a key": (
        "assert libc.syscall(248, b'user', b'left', b'x', 1, -4) > 0 or refused()",
        "assert libc.syscall(249, b'user', b'left', None, 0) == -1",
    ),
    "a lock on a file that all have": (
        "fcntl.flock(open(os.__file__), fcntl.LOCK_EX); os.fork() or time.sleep(60)",
        "fcntl.flock(open(os.__file__), fcntl.LOCK_EX | fcntl.LOCK_NB)",
    ),
}

KERNEL = """
import ctypes, errno, fcntl, os, socket, time

libc = ctypes.CDLL(None, use_errno=True)
libc.sem_open.restype = ctypes.c_void_p

def refused():
    return ctypes.get_errno() in (errno.EPERM, errno.ENOSYS)

def rows(kind):
    return len(open("/proc/sysvipc/" + kind).readlines()) - 1

def test_it():
    {code}
"""


@pytest.mark.parametrize(("leave", "look"), KERNEL_OBJECTS.values(), ids=KERNEL_OBJECTS)
def test_kernel_objects_do_not_stay(bubblewrap_runner, leave, look):
    """
    What the kernel keeps for a job, by a name that another could say, is gone with the job.
    """
    leaving, looking = in_turn(bubblewrap_runner, KERNEL.format(code=leave), KERNEL.format(code=look))

    assert leaving.judged.verdict == "passed", leaving
    assert looking.judged.verdict == "passed", looking


def test_kernel_objects_do_not_stay_in_a_container(docker_runner):
    """
    Nor are they left in a container.
    """
    jobs = [KERNEL.format(code=code) for pair in KERNEL_OBJECTS.values() for code in pair]
    seen = in_turn(docker_runner, *jobs)

    assert failed(KERNEL_OBJECTS, seen) == {}


def test_ipc_objects_are_no_reason_to_throw_a_sandbox_away(runner):
    """
    What can be removed is removed, and the sandbox goes on.
    """
    (seen,) = in_turn(runner, KERNEL.format(code="assert libc.shmget(4711, 4096, 0o1600) >= 0"))

    assert seen.clean


# --- what a process is born with ------------------------------------------------

BORN_WITH = {
    "environment": ("os.environ['LEFT'] = '1'", "dict(os.environ)"),
    "working folder": ("os.chdir('/usr')", "os.getcwd()"),
    "umask": ("os.umask(0o077)", "[os.umask(0), os.umask(0o022)][0]"),
    "signal handlers": (
        "[signal.signal(n, signal.SIG_IGN) for n in (2, 10, 13, 14, 15)]",
        "[str(signal.getsignal(n)) for n in (2, 10, 13, 14, 15)]",
    ),
    "blocked signals": (
        "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 30))",
        "[str(signal.pthread_sigmask(signal.SIG_BLOCK, ())), [x for x in open('/proc/self/status') if x[:3] == 'Sig']]",
    ),
    "pending signals": (
        "signal.pthread_sigmask(signal.SIG_BLOCK, [10]); os.kill(os.getpid(), 10)",
        "str(signal.sigpending())",
    ),
    "timers": ("signal.setitimer(signal.ITIMER_REAL, 300)", "signal.getitimer(signal.ITIMER_REAL)"),
    "limits": (
        "[resource.setrlimit(n, (64, 64)) for n in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC)]",
        "[resource.getrlimit(n) for n in range(16)]",
    ),
    "niceness": ("os.nice(10)", "[os.nice(0), os.sched_getscheduler(0), sorted(os.sched_getaffinity(0))]"),
    "scheduling": (
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); os.sched_setscheduler(0, 3, os.sched_param(0))",
        "[os.nice(0), os.sched_getscheduler(0), sorted(os.sched_getaffinity(0))]",
    ),
    "locale": ("locale.setlocale(locale.LC_ALL, 'C')", "[locale.setlocale(locale.LC_ALL), locale.getencoding()]"),
    "time zone": ("os.environ['TZ'] = 'Asia/Tokyo'; time.tzset()", "[time.tzname, time.localtime(0).tm_hour]"),
    "random state": ("random.seed(4711)", "[random.random() for _ in range(5)]"),
    "hash seed": ("None", "list({'a', 'b', 'c', 'd', 'e', 'f'})"),
    "a patched builtin": ("import builtins; builtins.len = lambda x: 42", "len('x')"),
    "a patched module": ("json.dumps = lambda x: '42'; json.left = 1", "[json.dumps([]), hasattr(json, 'left')]"),
    "a patched pytest": ("pytest.raises = None; pytest.left = 1", "[callable(pytest.raises), hasattr(pytest, 'left')]"),
    "a new module": ("sys.modules['left'] = sys", "'left' in sys.modules"),
    "the path for modules": ("sys.path.insert(0, '/dev/shm')", "sys.path"),
    "import hooks": ("sys.meta_path.clear()", "[str(type(x)) for x in sys.meta_path]"),
    "excepthook": ("sys.excepthook = sys.unraisablehook = print", "[str(sys.excepthook.__name__)]"),
    "recursion limit": ("sys.setrecursionlimit(5_000)", "sys.getrecursionlimit()"),
    "warning filters": ("import warnings; warnings.simplefilter('error', append=True)", "len(warnings.filters)"),
    "decimal context": ("decimal.getcontext().prec = 3; decimal.DefaultContext.prec = 3", "decimal.getcontext().prec"),
    "garbage collector": ("gc.disable(); gc.set_threshold(1)", "[gc.isenabled(), gc.get_threshold()]"),
    "threads": ("threading.Thread(target=time.sleep, args=(60,), daemon=True).start()", "threading.active_count()"),
    "name of the process": ("ctypes.CDLL(None).prctl(15, b'left')", "open('/proc/self/comm').read()"),
    "groups": ("None", "[os.getgroups(), os.getpgid(0) == os.getpid(), os.getsid(0) == os.getpid()]"),
    "its user's name": ("None", "[getpass.getuser(), pwd.getpwuid(os.getuid())[0], os.path.expanduser('~sandbox')]"),
    "its name in the memory's ranking": ("None", "open('/proc/self/oom_score_adj').read()"),
    "seccomp": (
        "None",
        "[x for x in open('/proc/self/status') if x.startswith(('Seccomp', 'NoNewPrivs', 'Cap', 'Groups'))]",
    ),
    "arguments": ("sys.argv.append('left')", "sys.argv"),
    "descriptors' flags": (
        "[fcntl.fcntl(n, fcntl.F_SETFL, os.O_APPEND | os.O_NONBLOCK) for n in map(int, os.listdir('/proc/self/fd')) "
        "if n > 2 and os.path.exists(f'/proc/self/fd/{n}')]",
        "[[n, fcntl.fcntl(int(n), fcntl.F_GETFL)] for n in sorted(os.listdir('/proc/self/fd'), key=int) "
        "if os.path.exists(f'/proc/self/fd/{n}')]",
    ),
    "the kernel's settings": (
        "None",
        "[open('/proc/sys/' + name).read() for name in ('kernel/hostname', 'kernel/shmmax', 'fs/mqueue/msg_max')]",
    ),
}

TELLS = """
import ctypes, decimal, fcntl, gc, getpass, json, locale, os, pwd
import pytest, random, resource, signal, sys, threading, time, warnings

real = json.JSONEncoder().encode

def test_it():
    {first}
    raise Exception(real({tells}))
"""


@pytest.mark.parametrize(("change", "tells"), BORN_WITH.values(), ids=BORN_WITH)
def test_every_job_is_born_the_same(bubblewrap_runner, change, tells):
    """
    What a process inherits is for each job as it is for the first.
    """
    before, _, after = in_turn(
        bubblewrap_runner,
        TELLS.format(first="pass", tells=tells),
        TELLS.format(first=change, tells="0"),
        TELLS.format(first="pass", tells=tells),
    )

    assert after.told == before.told


def test_every_job_is_born_the_same_in_a_container(docker_runner):
    """
    What a process inherits is for each job as it is for the first, all at once.
    """
    everything = ", ".join(f"{name!r}: hash(str({tells}))" for name, (_, tells) in BORN_WITH.items())
    changes = "\n    ".join(
        f"try: {part}\n    except Exception: pass"
        for name, (change, _) in BORN_WITH.items()
        if "patched" not in name and "hook" not in name
        for part in change.split("; ")
    )
    before, _, after = in_turn(
        docker_runner,
        TELLS.format(first="pass", tells=f"{{{everything}}}"),
        TELLS.format(first=changes, tells="0"),
        TELLS.format(first="pass", tells=f"{{{everything}}}"),
    )

    assert after.told == before.told


def test_compiled_modules_do_not_stay(runner):
    """
    Byte code that one job leaves for a module of the next is not what the next imports.
    """
    plants = """
    import importlib.util, os, py_compile

    def test_plant():
        open("helper.py", "w").write("WHO = 'the first'")
        for folder in (".", "/job/tmp", "/dev/shm", "/job"):
            target = importlib.util.cache_from_source(os.path.join(folder, "helper.py"))
            py_compile.compile("helper.py", target, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    """
    second = Suite.from_files(
        {
            "helper.py": "WHO = 'the second'",
            "test_solution.py": "import helper\n\ndef test_import():\n    assert helper.WHO == 'the second'",
        }
    )
    planting, importing = in_turn(runner, plants, second)

    assert planting.judged.verdict == "passed", planting
    assert importing.judged.verdict == "passed", importing


def test_no_two_jobs_have_the_same_user_id(runner):
    """
    Where we can give user ids, what is kept by user id, such as keys, is each job's own.
    """
    if runner.name == "bubblewrap" and os.geteuid() != 0:
        pytest.skip("an ordinary user has one id to give")
    tells = TELLS.format(first="pass", tells="os.getresuid() + os.getresgid()")
    ids = [tuple(seen.told) for seen in in_turn(runner, tells, tells, tells)]

    assert len(set(ids)) == 3
    assert all(len(set(each)) == 1 and each[0] != 0 for each in ids)


MARK = "-the-secret-of-job-1-"

FINDS_MEMORY = r"""
import re

def test_search():
    wanted = re.compile(rb"-the-secret-of-job-[0-9]-")  # which does not match itself
    found = []
    with open("/proc/self/maps") as file:
        maps = [line.split() for line in file]
    with open("/proc/self/mem", "rb", 0) as memory:
        for area, rights, *rest in maps:
            if "r" not in rights or rest[-1] in ("[vvar]", "[vsyscall]"):
                continue
            begin, end = (int(part, 16) for part in area.split("-"))
            try:
                memory.seek(begin)
                data = memory.read(end - begin)
            except (OSError, OverflowError):
                continue
            found += [data[max(0, match.start() - 40):match.end() + 20] for match in wanted.finditer(data)]
    assert not found
"""


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(f"SECRET = {MARK!r}\n\ndef test_it():\n    pass", id="its files"),
        pytest.param(f"def test_it():\n    assert ('-the-secret' '-of-job-1-') * 3 == 0  # {MARK}", id="its failures"),
        pytest.param(
            "def test_it():\n    import os; os.write(1, ('-the-secret' '-of-job-1-').encode())", id="its output"
        ),
    ],
)
def test_the_memory_holds_nothing_of_earlier_jobs(runner, first):
    """
    A job's process is a copy of one that has seen no other job: nothing of those is in its memory.
    """
    _, searching = in_turn(runner, first, FINDS_MEMORY)

    assert searching.judged.verdict == "passed", searching


def test_what_earlier_jobs_told_does_not_count(bubblewrap_runner, monkeypatch):
    """
    A job may tell as much as it may; what those before it told is not added to that.
    """
    monkeypatch.setattr(session, "MOST_EVENT_BYTES", 150_000)
    talks = "\n".join(f"def test_{n}():\n    print('x' * 30_000)\n    assert 0" for n in range(3))
    seen = in_turn(bubblewrap_runner, talks, talks, talks)

    assert [each.judged.verdict for each in seen] == ["failed"] * 3


# --- doubt ----------------------------------------------------------------------


def test_a_sandbox_with_a_file_that_cannot_be_removed_is_in_doubt(runner):
    """
    The guest does not vouch for a sandbox from which it could not remove everything.
    """
    (seen,) = in_turn(
        runner,
        """
        import os

        def test_leave():
            for _ in range(3_000):  # a path that is longer than any call takes
                os.mkdir("left")
                os.chdir("left")
            os.chmod(".", 0)
        """,
    )
    again = in_turn(runner, FINDS_FILES)

    assert seen.judged.verdict == "passed", seen
    assert again[0].judged.verdict == "passed", again


def test_two_parts_of_a_job_are_two_jobs(runner):
    """
    What the cases leave behind, the tests of the same suite do not find.
    """
    leaves = (
        "import os\n\ndef leave():\n    for name in ('/dev/shm/left', 'left', '../left'):\n        open(name, 'w')\n"
    )
    both = Suite(files={"test_solution.py": dedent(FINDS_FILES)}, cases=(Case(call="solution.leave", expected=None),))
    job = prepare(Submission.from_code(leaves), both, LIMITS, Environment(), 0)

    async def work() -> Judgement:
        async with session.open_guest(runner, Environment(), LIMITS, preload=True) as guest:
            return judge(await guest.run(job, last=True), both.cases, LIMITS)

    judged = run_blocking(work())

    assert judged.verdict == "passed", judged


# --- the supervisor ---------------------------------------------------------------

PIPES = """
import json, os

def test_it():
    pipes = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink("/proc/self/fd/" + name)
        except FileNotFoundError:
            continue
        assert target == "/dev/null" or target.startswith(("/job/tmp/", "pipe:", "/proc/")), target
        if target.startswith("pipe:"):
            pipes.add(target)
    # for events, for each of the two streams, and for the stack of one that hangs
    assert len(pipes) == 4, pipes
"""


@pytest.mark.parametrize("files", [{}, {"conftest.py": ""}], ids=["prepared", "ordinary"])
def test_a_job_holds_no_descriptor_of_the_supervisor(runner, files):
    """
    Neither the wire to the host nor anything else that is not the job's own is open in its process.
    """
    (seen,) = in_turn(runner, Suite.from_files({"test_solution.py": PIPES, **files}))

    assert seen.judged.verdict == "passed", seen


ON_THE_SUPERVISOR = {
    "kill it": "os.kill({pid}, signal.SIGKILL)",
    "interrupt it": "os.kill({pid}, signal.SIGINT)",
    "trace it": "check(libc.ptrace(16, {pid}, 0, 0))",
    "seize it": "check(libc.ptrace(0x4206, {pid}, 0, 0))",
    "read its memory": "open(f'/proc/{{{pid}}}/mem', 'rb')",
    "write its memory": "open(f'/proc/{{{pid}}}/mem', 'wb')",
    "list its descriptors": "os.listdir(f'/proc/{{{pid}}}/fd')",
    "take one of its descriptors": "check(libc.syscall(438, os.pidfd_open({pid}), 3, 0))",
    "read its memory by a call": "check(libc.process_vm_readv({pid}, vector, 1, vector, 1, 0))",
    "limit it": "resource.prlimit({pid}, resource.RLIMIT_NOFILE, (3, 3))",
    "slow it down": "os.setpriority(os.PRIO_PROCESS, {pid}, 19)",
    "make it idle": "os.sched_setscheduler({pid}, os.SCHED_IDLE, os.sched_param(0))",
    "bind it": "os.sched_setaffinity({pid}, [0])",
    "take its turn at the disk": "check(libc.syscall(251, 1, {pid}, 3 << 13))",
    "offer it to the kernel's killer": "open(f'/proc/{{{pid}}}/oom_score_adj', 'w')",
    "see its environment": "open(f'/proc/{{{pid}}}/environ').read(1)",
    "see its working folder": "os.readlink(f'/proc/{{{pid}}}/cwd')",
    "see its root": "os.listdir(f'/proc/{{{pid}}}/root')",
    "see its map": "open(f'/proc/{{{pid}}}/maps').read(1)",
    "clear its soft-dirty bits": "open(f'/proc/{{{pid}}}/clear_refs', 'w')",
    "join its namespaces": "check(libc.setns(os.open(f'/proc/{{{pid}}}/ns/mnt', os.O_RDONLY), 0))",
}

REFUSED = """
import ctypes, os, pytest, resource, signal

libc = ctypes.CDLL(None, use_errno=True)
buffer = ctypes.create_string_buffer(64)
vector = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 64)

def check(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), "")
"""


def each_refused(table: dict[str, str], preamble: str) -> str:
    """A suite with a test for each of these attempts, which passes if the kernel says no."""
    tests = [
        f"def test_{re.sub('[^a-z0-9]', '_', name)}():\n    with pytest.raises(OSError):\n        {code}\n"
        for name, code in table.items()
    ]
    return "\n".join([preamble, *tests])


@pytest.mark.parametrize("who", ["1", "os.getppid()"], ids=["the first process", "the parent"])
def test_the_supervisor_cannot_be_touched(runner, who):
    """
    What vouches for the sandbox can be neither seen into nor changed from it.
    """
    if runner.name == "bubblewrap" and os.geteuid() != 0:
        pytest.skip("one user id for both; what then holds is tested as an ordinary user, below")
    attempts = {name: code.format(pid=who) for name, code in ON_THE_SUPERVISOR.items()}
    (seen,) = in_turn(runner, each_refused(attempts, REFUSED))

    assert seen.judged.verdict == "passed", seen
    assert len(seen.judged.tests) == len(ON_THE_SUPERVISOR)


CALLS = {
    "a user namespace": "call(272, 0x10000000)",
    "a user namespace by clone": "call(56, 0x10000000 | 17, 0, 0, 0, 0)",
    "a user namespace by clone, with flags above": "call(56, 0x7FFFFFFF_00000000 | 0x10000000 | 17, 0, 0, 0, 0)",
    "a user namespace by clone3": "call(435, ctypes.byref((ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, 17)), 88)",
    "a pid namespace": "call(56, 0x20000000 | 17, 0, 0, 0, 0)",
    "a user namespace as x32": "call(0x40000000 + 272, 0x10000000)",
    "a user namespace as i386": "i386(310, 0x10000000)",
    "a key as i386": "i386(286, 0)",
    "a mount": "call(165, b'tmpfs', b'/job/tmp', b'tmpfs', 0, None)",
    "a new kind of mount": "call(430, b'tmpfs', 0)",
    "a new root": "call(155, b'/job', b'/job')",
    "io_uring": "call(425, 4, ctypes.create_string_buffer(256))",
    "bpf": "call(321, 0, ctypes.create_string_buffer(128), 128)",
    "userfaultfd": "call(323, 0)",
    "a key": "call(248, b'user', b'left', b'x', 1, -4)",
    "a keyring": "call(250, 1, None)",
    "a device": "os.mknod('/dev/shm/left', 0o020666, os.makedev(1, 1))",
    "a file of another user": "open('/dev/shm/x', 'w').close(); os.chown('/dev/shm/x', 0, 0)",
    "an immutable file": "fcntl.ioctl(open('/dev/shm/x', 'w'), 0x40086602, struct.pack('L', 0x10))",
    "the clock": "time.clock_settime(time.CLOCK_REALTIME, 0)",
    "the host's name": "socket.sethostname('left')",
    "root": "os.setuid(0)",
    "a raw socket": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    "a packet socket": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "a handle of a file": "call(304, -100, ctypes.create_string_buffer(128), 0)",
}

CALLING = """
import ctypes, fcntl, mmap, os, pytest, resource, signal, socket, struct, time

libc = ctypes.CDLL(None, use_errno=True)

def call(*arguments):
    result = libc.syscall(*[ctypes.c_long(x) if isinstance(x, int) else x for x in arguments])
    if result == 0 and arguments[0] in (56, 435):
        os._exit(0)
    if result == -1:
        raise OSError(ctypes.get_errno(), "")

def i386(number, first):
    # mov eax, number; mov ebx, first; int 0x80; ret, with rbx saved
    code = b"\\x53\\xb8" + struct.pack("<I", number) + b"\\xbb" + struct.pack("<I", first) + b"\\x31\\xc9\\x31\\xd2"
    code += b"\\xcd\\x80\\x48\\x98\\x5b\\xc3"
    memory = mmap.mmap(-1, 4096, prot=7)
    memory.write(code)
    function = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
    pid = os.fork()
    if not pid:
        os._exit(0 if function() >= 0 else 1)
    if os.waitpid(pid, 0)[1]:  # refused, or killed: a kernel need not know these calls
        raise OSError("refused")
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of x86-64's system calls")
def test_a_job_cannot_get_out_of_its_limits(runner):
    """
    System calls that lead to what outlives a job, or to another's, are refused in each of their forms.
    """
    (seen,) = in_turn(runner, each_refused(CALLS, CALLING))

    assert seen.judged.verdict == "passed", seen
    assert len(seen.judged.tests) == len(CALLS)


# --- beside -----------------------------------------------------------------------

HOLDS = """
import fcntl, mmap, os, socket, time

def test_hold():
    global held
    held = [socket.create_server(("127.0.0.1", 8000)), socket.socket(socket.AF_UNIX), open("/dev/shm/left", "w")]
    held[1].bind("\\0left")
    held[1].listen()
    os.fork() or time.sleep(60)

def test_wait():
    time.sleep(60)
"""

LOOKS_BESIDE = """
import errno, os, socket

def test_processes():
    processes = [name for name in os.listdir("/proc") if name.isdigit()]
    assert len(processes) == 4, processes  # the supervisor, its two zygotes, this job

def test_shared_memory():
    assert os.listdir("/dev/shm") == []

def test_abstract_sockets():
    assert socket.socket(socket.AF_UNIX).connect_ex("\\0left") == errno.ECONNREFUSED
    assert "left" not in open("/proc/net/unix").read()

def test_ports():
    assert socket.socket().connect_ex(("127.0.0.1", 8000)) == errno.ECONNREFUSED
    socket.create_server(("127.0.0.1", 8000))
"""


def beside(runner: Runner, holding: str, looking: str) -> Judgement:
    """What the second job sees while the first, in another sandbox, has come to its `test_wait`."""

    async def work() -> Judgement:
        waits = asyncio.Event()

        def on_event(event: dict[str, Any]) -> None:
            if event.get("e") == "start" and event.get("id", "").endswith("::test_wait"):
                waits.set()

        async with (
            session.open_guest(runner, Environment(), LIMITS) as first,
            session.open_guest(runner, Environment(), LIMITS) as second,
        ):
            job = prepare(Submission.from_code(""), suite(holding), LIMITS, Environment(), 0)
            held = asyncio.create_task(first.run(job, on_event))
            await asyncio.wait([held, asyncio.create_task(waits.wait())], return_when=asyncio.FIRST_COMPLETED)
            assert not held.done(), held.result()
            seen = await run(second, suite(looking))
            held.cancel()
            await asyncio.wait([held])
            return seen.judged

    return run_blocking(work())


def test_two_sandboxes_do_not_see_each_other(runner):
    """
    Processes, shared memory, sockets and ports of a sandbox are its own.
    """
    judged = beside(runner, HOLDS, LOOKS_BESIDE)

    assert judged.verdict == "passed", judged


# --- as an ordinary user ------------------------------------------------------------

ORDINARY = """
import json, os, sys
os.setgroups([])
os.setresgid({uid}, {uid}, {uid})
os.setresuid({uid}, {uid}, {uid})
from harness import Environment, Limits, Submission, Suite
from harness.judge import judge
from harness.verify import entered, prepare, run_blocking
from runners import session

async def main():
    limits = Limits(memory_mb=256, processes=48, disk_mb=32)
    suites = [Suite.from_code(code) for code in json.load(sys.stdin)]
    clean = False
    async with entered("bubblewrap", None) as runner:
        for suite in suites:
            if not clean:
                opened = session.open_guest(runner, Environment(), limits, preload=True)
                guest = await opened.__aenter__()
            try:
                job = prepare(Submission.from_code(""), suite, limits, Environment(), 0)
                outcome = await guest.run(job, last=False)
                clean = await guest.settle()
                judged = judge(outcome, (), limits)
                print(json.dumps([judged.verdict, judged.reason]), flush=True)
            except Exception as exc:
                print(json.dumps(["invalid", str(exc)]), flush=True)
                clean = False
    os._exit(0)

run_blocking(main())
"""


def as_an_ordinary_user(python: Path, *codes: str) -> list[tuple[str, str]]:
    """Verdict and reason of each of these jobs, in turn, where supervisor and candidate have the same user id."""
    site, checkout = Path(pytest.__file__).parents[1], test_bubblewrap.FIXTURES.parent
    if os.geteuid() != 0:
        pytest.skip("only root can become another user; the other tests already ran as an ordinary one")
    for path in (site, checkout):
        if not test_bubblewrap.is_public(path):
            pytest.skip(f"another user cannot read {path}")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as home:
        os.chown(home, test_bubblewrap.NOBODY, test_bubblewrap.NOBODY)
        done = subprocess.run(
            [python, "-c", ORDINARY.format(uid=test_bubblewrap.NOBODY)],
            input=json.dumps([dedent(code) for code in codes]),
            env={"HOME": home, "PYTHONPATH": f"{site}:{checkout}", "PATH": "/usr/bin:/bin"},
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


def test_an_ordinary_users_supervisor_keeps_its_state(public_python):
    """
    With the same user id as the supervisor, a job still does not change what later jobs inherit from it.
    """
    tells = """
    import os, resource

    def test_it():
        limits = [resource.getrlimit(n) for n in (resource.RLIMIT_STACK, resource.RLIMIT_MEMLOCK)]
        assert resource.getrlimit(resource.RLIMIT_STACK)[0] != 1 << 20, "limits"
        assert os.getpriority(os.PRIO_PROCESS, 0) == 0, "niceness"
        assert os.sched_getscheduler(0) == 0, "scheduler"
        assert os.stat("/job").st_mode & 0o7777 == 0o1777, "mode"
        for folder in ("/job", "/dev/shm"):
            try:
                assert "user.left" not in os.listxattr(folder), "attribute"
            except OSError:
                pass
    """
    changes = """
    import os, resource

    def attempt(function, *arguments):
        try:
            function(*arguments)
        except OSError:
            pass

    def test_it():
        attempt(resource.prlimit, 1, resource.RLIMIT_STACK, (1 << 20, 1 << 20))
        attempt(os.setpriority, os.PRIO_PROCESS, 1, 15)
        attempt(os.sched_setscheduler, 1, os.SCHED_BATCH, os.sched_param(0))
        attempt(os.chmod, "/job", 0o1775)
        attempt(os.setxattr, "/dev/shm", "user.left", b"x")
    """
    seen = as_an_ordinary_user(public_python, tells, changes, tells)

    assert [verdict for verdict, _ in seen] == ["passed", "passed", "passed"], seen


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("os.kill(1, signal.SIGINT)", id="interrupts"),
        pytest.param("[os.kill(1, number) for number in range(1, 65) if number not in (32, 33)]", id="sends all"),
        pytest.param("resource.prlimit(1, resource.RLIMIT_CPU, (0, 0))", id="no time"),
        pytest.param("resource.prlimit(1, resource.RLIMIT_NOFILE, (3, 3))", id="no files"),
        pytest.param("os.chmod('/job', 0)", id="no workspace"),
    ],
)
def test_an_ordinary_users_supervisor_cannot_be_ended(public_python, code):
    """
    With the same user id as the supervisor, a failing candidate still cannot turn its verdict into `invalid`.
    """
    ends = f"""
    import os, resource, signal

    def test_it():
        try:
            {code}
        except OSError:
            pass
        assert sum(range(3_000_000)) == 0
    """
    ((verdict, reason),) = as_an_ordinary_user(public_python, ends)

    assert verdict in ("failed", "crashed"), reason
