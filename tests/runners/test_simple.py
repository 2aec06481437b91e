"""Which test modules could not tell whether a session of pytest's is around them."""

from __future__ import annotations

import ast

import pytest

from runners.simple import imports_of_simple

SIMPLE = [
    "from solution import f\ndef test_it(): assert f(1) == 2",
    "import solution, math\nfrom collections.abc import Sequence\nimport pytest as pt\ndef test_it(): pt.fail('no')",
    "from pytest import approx, raises\ndef test_it(): assert 1 == approx(1)",
    "def check(candidate, n=2, *rest): return n\ndef test_it(): check(1)",
    "def test_it():\n    def inner(n): return n\n    assert [inner(n) for n in (1, 2)]\n    return",
    "class Node:\n    def __init__(self, n): self.n = n\n    @property\n    def twice(self): return self.n * 2",
    "for n in range(3):\n    print(n)\nif __name__ == '__main__':\n    print(__name__)",
    "def test_it():\n    try: pass\n    except ValueError as caught: assert caught.args",
]
NOT_SIMPLE = {
    "a parameter": "def test_it(tmp_path): pass",
    "a default": "def test_it(n=1): pass",
    "a mark": "import pytest\n@pytest.mark.skip\ndef test_it(): pass",
    "a decorated helper": "import functools\n@functools.cache\ndef f(): pass",
    "a generator": "def test_it(): yield 1",
    "a value returned": "def test_it(): return 1",
    "a coroutine": "async def test_it(): pass",
    "a coroutine inside": "def test_it():\n    async def f(): pass",
    "more of pytest": "import pytest\ndef test_it(): pytest.skip('no')",
    "pytest in a variable": "import pytest\np = pytest\ndef test_it(): p.skip('no')",
    "pytest rebound": "import pytest\npytest = 1",
    "more from pytest": "from pytest import skip\ndef test_it(): skip('no')",
    "all from pytest": "from pytest import *",
    "its own process": "import sys",
    "from its own process": "from os import path",
    "a module of a package": "import os.path",
    "a relative import": "from . import helper",
    "frames": "def test_it(): f().tb_frame",
    "a special attribute": "def test_it(): assert check.__globals__",
    "a special name": "def test_it(): __loader__",
    "looking up by name": "def test_it(): getattr(f(), 'y')",
    "its namespace": "globals()['test_it'] = 1",
    "reading files": "def test_it(): open('x')",
    "a base class": "class Node(list): pass",
    "a metaclass": "class Node(metaclass=type): pass",
    "a finalizer": "class Node:\n    def __del__(self): pass",
    "any attribute": "class Node:\n    def __getattr__(self, name): pass",
}


@pytest.mark.parametrize("source", SIMPLE, ids=range(len(SIMPLE)))
def test_functions_and_values_are_simple(source):
    """
    pytest would do nothing with such a module but import it and call its tests.
    """
    assert imports_of_simple(ast.parse(source)) is not None


@pytest.mark.parametrize("name", NOT_SIMPLE)
def test_what_is_not_understood_is_not_simple(name):
    """
    Whatever may look at the process around it, or mean something to pytest, is left to a session.
    """
    assert imports_of_simple(ast.parse(NOT_SIMPLE[name])) is None


def test_what_is_imported_from_elsewhere_is_told():
    """
    It has to be the submission's; what else it could be is not known here.
    """
    source = "import numpy.linalg, math\nfrom solution import f\nfrom package.inner import g"

    assert imports_of_simple(ast.parse(source)) == {"numpy", "solution", "package"}
