"""The prepared way to run a suite, which a warm guest takes, and the ordinary one tell the same.

Each suite runs twice: in a guest that has begun pytest's session before it knew of any
job, and in a new one that begins with the job, as stock pytest does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AsyncExitStack
from textwrap import dedent
from typing import Any

import pytest

from harness import Environment, Limits, Runner, Submission, Suite
from harness.judge import Judgement, judge
from harness.verify import prepare, run_blocking
from runners import session
from runners.contract import Job, Outcome
from runners.guest.testing import is_plain
from runners.session import Guest

LIMITS = Limits(wall_seconds=30, test_seconds=20, memory_mb=256, processes=48, disk_mb=32, output_kb=1024)

SOLUTION = """
import warnings

def add(a, b):
    return a + b

def warn():
    warnings.warn("old", DeprecationWarning, stacklevel=2)

class Stack:
    def __init__(self, items=()):
        self.items = list(items)

    def pop(self):
        return self.items.pop()
"""


class Warm:
    """A guest that has prepared itself; another one whenever it does not vouch for its sandbox."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._stack = AsyncExitStack()
        self._guest: Guest | None = None

    async def run(self, job: Job) -> Judgement:
        return judge(await self.outcome(job), (), LIMITS)

    async def outcome(self, job: Job) -> Outcome:
        if self._guest is None:
            opened = session.open_guest(self._runner, job.environment, LIMITS, preload=True)
            self._guest = await self._stack.enter_async_context(opened)
        outcome = await self._guest.run(job, last=False)
        if not await self._guest.settle():
            self._guest = None
        return outcome

    async def close(self) -> None:
        await self._stack.aclose()


@pytest.fixture(scope="module")
def warm(bubblewrap_runner: Runner) -> Iterator[Warm]:
    ready = Warm(bubblewrap_runner)
    yield ready
    run_blocking(ready.close())


async def cold_run(runner: Runner, job: Job) -> Judgement:
    async with session.open_guest(runner, job.environment, LIMITS) as guest:
        return judge(await guest.run(job), (), LIMITS)


def job_of(files: dict[str, str] | str, submission: dict[str, str] | None = None, **environment: Any) -> Job:
    files = {"test_it.py": files} if isinstance(files, str) else files
    suite = Suite.from_files({path: dedent(text) for path, text in files.items()})
    handed = Submission.from_files({"solution.py": SOLUTION, **(submission or {})})
    return prepare(handed, suite, LIMITS, Environment(**environment), 0)


def masked(data: Any) -> Any:
    """The same without what differs between two runs of anything: addresses and times."""
    if isinstance(data, dict):
        return {name: masked(item) for name, item in data.items() if name != "seconds"}
    if isinstance(data, (list, tuple)):
        return [masked(item) for item in data]
    if isinstance(data, str):
        data = re.sub(r"0x[0-9a-f]+", "0x…", data)
        return re.sub(r"\d+(\.\d+)? ?(ms|s|seconds)\b", "… s", data)
    return data


def told(judged: Judgement) -> dict[str, Any]:
    """All that a report says of it."""
    return {
        "verdict": judged.verdict,
        "reason": masked(judged.reason),
        "tests": [(test.nodeid, test.outcome) for test in judged.tests],
        "failures": [masked(failure.model_dump()) for failure in judged.failures],
        "warnings": [masked(warning.model_dump()) for warning in judged.warnings],
        "notes": masked(judged.notes),
    }


PLAIN: dict[str, dict[str, str] | str] = {
    "passing": "from solution import add\ndef test_it(): assert add(1, 2) == 3",
    "failing": "from solution import add\ndef test_it():\n    a = [1, 2]\n    assert add(a, [3]) == [1, 2, 4]",
    "long difference": "def test_it(): assert list(range(100)) == list(range(50)) + list(range(51, 101))",
    "raising": "from solution import Stack\ndef test_it(): Stack().pop()",
    "parametrize": """
        import pytest
        @pytest.mark.parametrize("a", [1, 2.5, "x y", None, object, b"z"])
        @pytest.mark.parametrize("b", [(1,), {}], ids=["one", "two"])
        def test_it(a, b): assert a != 2.5
    """,
    "fixtures": """
        import pytest
        @pytest.fixture(scope="module")
        def whole():
            yield [1]
            assert False, "at the end"
        @pytest.fixture(params=[1, 2])
        def each(request, whole): return request.param
        @pytest.fixture
        def failing(): raise LookupError("in the beginning")
        def test_it(each): assert each == 1
        def test_failing(failing): pass
    """,
    "autouse": """
        import pytest
        log = []
        @pytest.fixture(autouse=True)
        def around():
            log.append("before")
            yield
            log.append("after")
        def test_one(): assert log == ["before"]
        def test_two(): assert log == ["before", "after", "before"]
    """,
    "an unknown fixture": "def test_it(no_such_fixture): pass",
    "classes": """
        class TestIt:
            def setup_method(self): self.a = 1
            def test_one(self): assert self.a == 1
            def test_two(self): assert self.a == 2
        class TestWithInit:
            def __init__(self): pass
            def test_never(self): pass
    """,
    "module and class setup": """
        def setup_module(): global a; a = 1
        def teardown_module(): raise OSError("no")
        class TestIt:
            @classmethod
            def setup_class(cls): cls.b = a
            def test_it(self): assert self.b == 1
    """,
    "unittest": """
        import unittest
        class It(unittest.TestCase):
            def setUp(self): self.a = [1]
            def test_equal(self): self.assertEqual(self.a, [2])
            def test_in(self): self.assertIn(1, self.a)
            @unittest.skip("not now")
            def test_skipped(self): pass
            @unittest.expectedFailure
            def test_expected(self): self.fail()
            def test_sub(self):
                for n in range(3):
                    with self.subTest(n=n): self.assertNotEqual(n, 1)
        class Async(unittest.IsolatedAsyncioTestCase):
            async def test_it(self): self.assertTrue(False)
    """,
    "asyncio": """
        import asyncio, pytest
        @pytest.fixture
        async def value():
            await asyncio.sleep(0)
            yield 1
        async def test_it(value):
            await asyncio.sleep(0)
            assert value == 2
        async def test_gather(): assert await asyncio.gather(asyncio.sleep(0, 1), asyncio.sleep(0, 2)) == [1, 2]
    """,
    "hypothesis": """
        from hypothesis import given, strategies as st
        @given(st.lists(st.integers()))
        def test_it(items): assert sum(items) < 100
        @given(st.text())
        def test_right(text): assert text == text
    """,
    "hypothesis draws the same": """
        from hypothesis import given, settings, strategies as st
        drawn = []
        @settings(max_examples=20, database=None)
        @given(st.integers(), st.text(max_size=5))
        def test_it(number, text): drawn.append((number, text))
        def test_tell(): raise Exception(hash(str(drawn)))
    """,
    "a hypothesis setting": "from hypothesis import settings\ndef test_it(): raise Exception(settings())",
    "warnings": """
        import warnings, solution
        warnings.warn("at import")
        def test_it():
            solution.warn()
            warnings.warn(UserWarning("two"))
    """,
    "recorded warnings": """
        import pytest, solution
        def test_it(recwarn):
            solution.warn()
            assert [str(w.message) for w in recwarn] == ["old"]
        def test_other():
            with pytest.warns(UserWarning): solution.warn()
    """,
    "unraisable": """
        import gc
        class Bad:
            def __del__(self): raise ValueError("never heard")
        def test_it():
            Bad()
            gc.collect()
    """,
    "a thread that fails": """
        import threading
        def test_it():
            thread = threading.Thread(target=lambda: 1 / 0)
            thread.start()
            thread.join()
    """,
    "captured streams": """
        import os, sys
        def test_sys(capsys):
            print("out"); print("err", file=sys.stderr)
            assert capsys.readouterr() == ("out\\n", "err\\n")
        def test_fd(capfd):
            os.system("echo out; echo err >&2")
            assert capfd.readouterr() == ("out\\n", "err\\n")
        def test_disabled(capsys):
            with capsys.disabled(): print("past the capture")
        def test_binary(capfdbinary):
            os.write(1, b"\\xff")
            assert capfdbinary.readouterr().out == b"\\xff"
    """,
    "printing": """
        import os, sys
        print("at import")
        os.write(1, b"by descriptor, at import\\n")
        def test_it():
            print("out")
            print("err", file=sys.stderr)
            os.write(1, b"by descriptor\\n")
            os.system("echo by another process")
            assert False
        def test_real(): sys.__stdout__.write("real"); sys.__stdout__.flush(); assert False
    """,
    "reading stdin": "def test_it(): input()",
    "logging": """
        import logging
        def test_it(caplog):
            logging.getLogger("a").warning("hello")
            with caplog.at_level(logging.DEBUG): logging.debug("quiet")
            assert [r.message for r in caplog.records] == ["hello"]
        def test_state(): raise Exception((logging.root.level, [type(h).__name__ for h in logging.root.handlers]))
    """,
    "tmp_path": """
        import os, tempfile
        def test_it(tmp_path, tmp_path_factory):
            assert list(tmp_path.iterdir()) == []
            raise Exception((str(tmp_path), str(tmp_path_factory.mktemp("x")), tempfile.gettempdir()))
        def test_tmpdir(tmpdir): raise Exception(str(tmpdir))
    """,
    "monkeypatch": """
        import os
        def test_it(monkeypatch, tmp_path):
            monkeypatch.setenv("A", "1")
            monkeypatch.chdir(tmp_path)
        def test_after(): raise Exception((os.environ.get("A"), os.getcwd()))
    """,
    "record_property": "def test_it(record_property, record_testsuite_property): record_property('a', 1); assert 0",
    "an error at import": "import no_such_module\ndef test_it(): pass",
    "a name that is missing": "from solution import no_such_name\ndef test_it(): pass",
    "an error in a suite's syntax": "def test_it(:\n    pass",
    "an exception at import": "raise ValueError('early')",
    "an error among others": {
        "test_a.py": "def test_a(): pass",
        "test_b.py": "1 / 0",
        "test_c.py": "def test_c(): pass",
    },
    "exit at import": "import sys; sys.exit(3)",
    "skip and xfail": """
        import pytest
        @pytest.mark.skip(reason="a")
        def test_skip(): pass
        @pytest.mark.skipif("sys.platform == 'linux'")
        def test_skipif(): pass
        @pytest.mark.xfail
        def test_xfail(): assert 0
        @pytest.mark.xfail(strict=True)
        def test_xpass_strict(): pass
        @pytest.mark.xfail(raises=KeyError)
        def test_other(): raise ValueError
        def test_imperative(): pytest.skip("b")
        def test_imperative_xfail(): pytest.xfail("c")
        def test_importorskip(): pytest.importorskip("no_such_module")
    """,
    "skip a module": "import pytest\npytest.skip('all', allow_module_level=True)",
    "an unknown mark": "import pytest\n@pytest.mark.no_such_mark\ndef test_it(): pass",
    "subtests": """
        def test_it(subtests):
            for n in range(3):
                with subtests.test(n=n): assert n != 1
    """,
    "doctests in a text file": {"test_it.txt": ">>> 1 + 1\n3\n", "test_it.py": "def test_it(): pass"},
    "a package": {
        "tests/__init__.py": "",
        "tests/helper.py": "VALUE = 1",
        "tests/test_a.py": "from .helper import VALUE\nimport solution\ndef test(): assert solution.add(1, 1) == VALUE",
        "tests/deep/__init__.py": "",
        "tests/deep/test_it.py": "from ..helper import VALUE\ndef test_it(): assert VALUE == 2",
    },
    "the same name in two folders": {"a/test_it.py": "def test_a(): pass", "b/test_it.py": "def test_b(): assert 0"},
    "the same name in two packages": {
        "a/__init__.py": "",
        "a/test_it.py": "def test_a(): pass",
        "b/__init__.py": "",
        "b/test_it.py": "def test_b(): assert __name__ == 'test_it'",
    },
    "order of files": {f"test_{name}.py": f"def test_{name}(): pass" for name in ("b", "c", "a", "B", "_")},
    "options": """
        def test_it(request):
            config = request.config
            names = ("verbose", "maxfail", "capture", "tbstyle", "strict_markers", "basetemp", "importmode", "color")
            raise Exception([config.getoption(name, None) for name in names])
        def test_ini(request):
            names = ("testpaths", "python_files", "filterwarnings", "addopts", "norecursedirs", "asyncio_mode")
            raise Exception([request.config.getini(name) for name in names])
    """,
    "paths": """
        import os
        def test_it(request):
            config = request.config
            raise Exception([str(p) for p in (config.rootpath, config.inipath, config.invocation_params.dir,
                os.getcwd(), request.session.startpath, request.path, request.node.nodeid, request.session.name)])
    """,
    "cache": """
        def test_it(cache, request):
            assert cache.get("a/b", 1) == 1
            cache.set("a/b", 2)
            raise Exception((cache.get("a/b", 1), str(request.config.cache._cachedir)))
    """,
    "faulthandler": """
        import faulthandler
        def test_it(): raise Exception(faulthandler.is_enabled())
    """,
    "a crash": "import ctypes\ndef test_it(): ctypes.string_at(0)",
    "sets": "def test_it(): raise Exception(list({'alpha', 'beta', 'gamma', 'delta', 'epsilon'}))",
    "random": """
        import random, uuid
        first = random.random()
        def test_it(): raise Exception((first, [random.random() for _ in range(3)]))
    """,
    "assertions are rewritten": {
        "test_it.py": "import helper\ndef test_it():\n    values = {'a': 1}\n    assert values['a'] == helper.value()",
        "helper.py": "def value():\n    x = 3\n    assert x == 4, 'told'\n    return x",
    },
    "assertion rewriting on request": {
        "test_it.py": "import pytest\npytest.register_assert_rewrite('helper')\n"
        "import helper\ndef test_it(): helper.check(1)",
        "helper.py": "def check(x): assert x == 2",
    },
    "a plugin that a module asks for": {
        "test_it.py": "pytest_plugins = ['helper']\ndef test_it(given): assert given == 2",
        "helper.py": "import pytest\n@pytest.fixture\ndef given(): return 1",
    },
    "hooks in a module": """
        def pytest_generate_tests(metafunc):
            if "number" in metafunc.fixturenames: metafunc.parametrize("number", [1, 2])
        def test_it(number): assert number == 1
    """,
    "pytest.exit": "import pytest\ndef test_a(): pass\ndef test_b(): pytest.exit('enough', 7)\ndef test_c(): pass",
    "interrupt": "def test_a(): pass\ndef test_b(): raise KeyboardInterrupt\ndef test_c(): pass",
    "sys.exit": "import sys\ndef test_a(): sys.exit(0)\ndef test_b(): pass",
    "os._exit": "import os\ndef test_a(): pass\ndef test_b(): os._exit(0)",
    "no tests": "x = 1",
    "an empty suite file": "",
    "a module that was not imported": "import unittest\ndef test_it(): unittest.mock.Mock()",
    "another module that was not imported": "import concurrent\ndef test_it(): concurrent.futures.Future()",
    "and another": "import xml\ndef test_it(): xml.etree.ElementTree",
    "signals": """
        import signal
        def test_it():
            raise Exception([(n, str(signal.getsignal(n))) for n in range(1, 32) if n not in (9, 19)])
    """,
    "paths for modules": "import sys\ndef test_it(): raise Exception((sys.path, [*map(type, sys.meta_path)]))",
    "threads": "import threading\ndef test_it(): raise Exception([t.name for t in threading.enumerate()])",
    "filters": "import warnings\ndef test_it(): raise Exception([f[:1] + f[2:3] for f in warnings.filters])",
    "the interpreter": """
        import gc, locale, os, sys
        def test_it():
            raise Exception((gc.isenabled(), gc.get_threshold(), sys.flags, sys.dont_write_bytecode, locale.getlocale(),
                sys.getrecursionlimit(), sys.getswitchinterval(), sorted(os.environ.items()), sys.stdin.encoding,
                sys.__stdout__.encoding, sys.__stdout__.line_buffering, sys.__stderr__.errors))
    """,
    "hooks of the interpreter": """
        import sys, threading
        def test_it(): raise Exception((sys.excepthook.__name__, sys.unraisablehook.__name__, sys.displayhook.__name__,
            sys.breakpointhook.__name__, threading.excepthook.__name__, sys.gettrace(), sys.getprofile()))
    """,
    "breakpoint": "def test_it(): breakpoint()",
    "descriptors that a child inherits": """
        import subprocess, sys
        def test_it():
            code = "import os; print(sorted(os.listdir('/proc/self/fd'), key=int)[:-1])"
            raise Exception(subprocess.run([sys.executable, "-c", code], close_fds=False, capture_output=True).stdout)
    """,
    "a child's children": """
        import multiprocessing
        def square(x): return x * x
        def test_it():
            with multiprocessing.get_context("fork").Pool(2) as pool: assert pool.map(square, [1, 2]) == [1, 5]
    """,
}


@pytest.mark.parametrize("files", PLAIN.values(), ids=PLAIN)
def test_both_ways_tell_the_same(bubblewrap_runner, warm, files):
    """
    A suite that configures nothing gets the same report from a session that began before it.
    """
    job = job_of(files)
    prepared, ordinary = run_blocking(warm.run(job)), run_blocking(cold_run(bubblewrap_runner, job))

    assert is_plain({**vars(job), "suite": list(job.suite.items()), "variables": {}})
    assert told(prepared) == told(ordinary)


SHADOWING = ("queue", "doctest", "zoneinfo", "sysconfig", "sortedcontainers", "gzip", "calendar", "statistics", "heapq")


@pytest.mark.parametrize("name", SHADOWING)
def test_a_module_with_the_name_of_a_known_one(bubblewrap_runner, warm, name):
    """
    Whether a submission's own module or the library's is imported does not depend on what we imported before.
    """
    job = job_of(f"import {name}\ndef test_it(): assert {name}.MINE", {f"{name}.py": "MINE = True"})
    prepared, ordinary = run_blocking(warm.run(job)), run_blocking(cold_run(bubblewrap_runner, job))

    assert told(prepared) == told(ordinary)


CONFIGURED: dict[str, dict[str, str]] = {
    "conftest.py": {
        "conftest.py": "import pytest\n@pytest.fixture\ndef given(): return 1",
        "test_it.py": "def test_it(given): assert given == 2",
    },
    "conftest.py in a folder": {
        "a/conftest.py": "import pytest\n@pytest.fixture\ndef given(): return 1",
        "a/test_it.py": "def test_it(given): assert given == 1",
        "test_it.py": "def test_it(given): assert given == 1",
    },
    "a conftest.py that fails": {"conftest.py": "1 / 0", "test_it.py": "def test_it(): pass"},
    "an option in conftest.py": {
        "conftest.py": "def pytest_addoption(parser): parser.addoption('--mine', default='yes')",
        "test_it.py": "def test_it(request): assert request.config.getoption('--mine') == 'no'",
    },
    "hooks in conftest.py": {
        "conftest.py": "def pytest_collection_modifyitems(items): items.reverse()",
        "test_it.py": "def test_a(): pass\ndef test_b(): assert 0",
    },
    "pytest.ini": {
        "pytest.ini": "[pytest]\npython_functions = check_*\naddopts = -x --strict-markers\nmarkers = mine\n",
        "test_it.py": "import pytest\n@pytest.mark.mine\ndef check_it(): 1 / 0\ndef check_two(): pass\ndef test(): 1",
    },
    "pyproject.toml": {
        "pyproject.toml": "[tool.pytest.ini_options]\nfilterwarnings = ['error']\n",
        "test_it.py": "import warnings\ndef test_it(): warnings.warn('loud')",
    },
    "tox.ini": {"tox.ini": "[pytest]\npython_files = check_*.py\n", "check_it.py": "def test_it(): assert 0"},
    "setup.cfg": {
        "setup.cfg": "[tool:pytest]\nxfail_strict = true\n",
        "test_it.py": "import pytest\n@pytest.mark.xfail\ndef test_it(): pass",
    },
    "an ini file that is wrong": {
        "pytest.ini": "[pytest]\naddopts = --no-such-option\n",
        "test_it.py": "def test_it(): pass",
    },
}


@pytest.mark.parametrize("files", CONFIGURED.values(), ids=CONFIGURED)
def test_a_suite_that_configures_pytest_takes_the_ordinary_way(bubblewrap_runner, warm, files):
    """
    In a warm guest it is configured as in any other.
    """
    job = job_of(files)
    prepared, ordinary = run_blocking(warm.run(job)), run_blocking(cold_run(bubblewrap_runner, job))

    assert not is_plain({**vars(job), "suite": list(job.suite.items()), "variables": {}})
    assert told(prepared) == told(ordinary)


OPTIONS = {
    "-k": ("-k", "one"),
    "-x": ("-x",),
    "doctests": ("--doctest-modules",),
    "no capture": ("-s",),
    "verbose": ("-vv",),
    "import mode": ("--import-mode=importlib",),
    "no such": ("--no-such-option",),
    "a plugin less": ("-p", "no:cacheprovider"),
    "setup only": ("--collect-only",),
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_suite_with_options_takes_the_ordinary_way(bubblewrap_runner, warm, options):
    """
    In a warm guest they mean the same as in any other.
    """
    code = (
        "def test_one():\n    '''\n    >>> 1\n    2\n    '''\n    print('out'); assert 0\ndef test_two(): assert 1 == 2"
    )
    handed = Submission.from_files({"solution.py": SOLUTION})
    job = prepare(handed, Suite.from_code(code, options=options), LIMITS, Environment(), 0)
    prepared, ordinary = run_blocking(warm.run(job)), run_blocking(cold_run(bubblewrap_runner, job))

    assert told(prepared) == told(ordinary)


def test_a_seed_is_the_jobs_own(bubblewrap_runner, warm):
    """
    With a seed, random numbers and Hypothesis's examples are the same in both ways, and others than without.
    """
    code = "import random\ndef test_it(): raise Exception(random.random())"
    seeded = prepare(Submission.from_code(""), Suite.from_code(code), LIMITS, Environment(), 7)
    prepared, ordinary = run_blocking(warm.run(seeded)), run_blocking(cold_run(bubblewrap_runner, seeded))
    unseeded = run_blocking(warm.run(job_of(code)))

    assert told(prepared) == told(ordinary)
    assert told(prepared)["reason"] != told(unseeded)["reason"]


VARIABLES = {
    "time zone": ({"TZ": "Asia/Tokyo"}, "import time\ndef test_it(): assert time.localtime(0).tm_hour == 9"),
    "its name": ({"TZ": "Asia/Tokyo"}, "import time\ndef test_it(): assert time.tzname[0] == 'JST'"),
    "Hypothesis in CI": (
        {"CI": "true"},
        "from hypothesis import settings\ndef test_it(): assert settings().derandomize",
    ),
    "pytest's own": ({"PYTEST_ADDOPTS": "-k other"}, "def test_it(): assert 0\ndef test_other(): pass"),
    "any": ({"MINE": "1"}, "import os\ndef test_it(): assert os.environ['MINE'] == '1'"),
}


@pytest.mark.parametrize(("variables", "code"), VARIABLES.values(), ids=VARIABLES)
def test_variables_of_the_job_count(bubblewrap_runner, variables, code):
    """
    A variable that the job sets has its effect, although the guest was there before it.
    """
    job = job_of(code, variables=variables)
    warm = Warm(bubblewrap_runner)
    try:
        prepared, ordinary = run_blocking(warm.run(job)), run_blocking(cold_run(bubblewrap_runner, job))
    finally:
        run_blocking(warm.close())

    assert told(prepared) == told(ordinary)
    assert prepared.verdict == "passed", prepared.reason


def test_the_same_job_again_tells_the_same(warm):
    """
    Nothing of the first run is in the report of the second, in the same sandbox.
    """
    code = """
    import os, random, tempfile
    def test_it(tmp_path):
        made = tempfile.mkdtemp(prefix="x", dir="/job/tmp")
        raise Exception((random.random(), list({"a", "b", "c"}), str(tmp_path), sorted(os.listdir("/job/tmp"))[0][:6]))
    """
    first, second = (told(run_blocking(warm.run(job_of(code)))) for _ in range(2))

    assert first == second


def test_a_container_tells_the_same(docker_runner, bubblewrap_runner):
    """
    In a container both ways tell the same as well.
    """
    names = ("failing", "fixtures", "unittest", "asyncio", "hypothesis", "printing", "skip and xfail", "a package")
    jobs = [job_of(PLAIN[name]) for name in names]
    warm = Warm(docker_runner)
    try:
        prepared = [told(run_blocking(warm.run(job))) for job in jobs]
        ordinary = [told(run_blocking(cold_run(docker_runner, job))) for job in jobs]
    finally:
        run_blocking(warm.close())

    assert prepared == ordinary
