"""What is remembered of the modules that decide about tests, and how a change is found."""

from __future__ import annotations

import types

import pytest

from runners.guest import pristine


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A module that counts, in the place of one that does."""
    made = types.ModuleType("pluggy._stand_in")
    exec("def decide(): return 1\nclass Judge:\n    def decide(self): return 1\n", made.__dict__)
    monkeypatch.setitem(pristine.sys.modules, made.__name__, made)
    return made


def changed(kept: pristine.Pristine, all_of_them: bool = False) -> list[str]:
    return [change.name for change in kept.changes(lambda package: package == "pluggy", all_of_them)]


def test_what_is_as_it_was_is_no_change(module):
    """
    Also if it has been used, and something has been set to what it was.
    """
    kept = pristine.Pristine()

    module.decide()
    module.decide = module.decide
    module.Judge().decide()

    assert not changed(kept) and not changed(kept, all_of_them=True)


@pytest.mark.parametrize("all_of_them", [False, True], ids=["by versions", "one by one"])
def test_a_replacement_is_named(module, all_of_them):
    """
    Of a function, of a method, and of a method that was not there.
    """
    kept = pristine.Pristine()

    module.decide = lambda: 2
    module.Judge.decide = lambda self: 2
    module.Judge.__eq__ = lambda self, other: True

    names = {f"pluggy._stand_in.{name}" for name in ("decide", "Judge.decide", "Judge.__eq__")}
    assert set(changed(kept, all_of_them)) >= names


def test_a_version_that_was_put_back_hides_nothing_from_a_look_at_all(module):
    """
    Who writes to raw memory can put back a version, too; then versions are not asked.
    """
    if not pristine._has_versions():
        pytest.skip("this Python's dicts have no versions")
    kept = pristine.Pristine()
    version = pristine._version_of(vars(module))
    before = version.value
    module.decide = lambda: 2
    version.value = before

    assert "pluggy._stand_in.decide" not in changed(kept, all_of_them=False)
    assert "pluggy._stand_in.decide" in changed(kept, all_of_them=True)
