"""`[tool.reproof]` of the nearest pyproject.toml."""

from __future__ import annotations

import re

import pytest

from harness.settings import default_runner


def test_without_a_project_it_is_auto(tmp_path, monkeypatch):
    """
    With no pyproject.toml above, the machine decides.
    """
    monkeypatch.chdir(tmp_path)

    assert default_runner() == "auto"


@pytest.mark.parametrize("text", ["", "[tool.other]\nrunner = 'x'\n", "[tool.reproof]\n"])
def test_a_project_that_says_nothing_is_auto(tmp_path, monkeypatch, text):
    """
    A pyproject.toml without a runner leaves it to the machine.
    """
    (tmp_path / "pyproject.toml").write_text(text)
    monkeypatch.chdir(tmp_path)

    assert default_runner() == "auto"


def test_the_nearest_project_decides(tmp_path, monkeypatch):
    """
    Of two projects, one inside the other, the inner one's setting holds, from any folder in it.
    """
    inner = tmp_path / "inner" / "src"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.reproof]\nrunner = 'docker'\n")
    (tmp_path / "inner" / "pyproject.toml").write_text("[tool.reproof]\nrunner = 'bubblewrap'\n")
    monkeypatch.chdir(inner)

    assert default_runner() == "bubblewrap"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[tool.reproof]\nrunner = 'vm'\n", "'vm'; there are auto, bubblewrap, docker, process"),
        ("[tool.reproof]\nrunner = 'process'\n", "not a sandbox, and no file can ask for it"),
        ("[tool.reproof]\nrunner = 3\n", "runner = 3"),
        ("[tool.reproof]\nruner = 'docker'\n", "has no key 'runer'"),
        ("[tool.reproof\n", "cannot be read"),
        ("[tool]\nreproof = 3\n", "reproof"),
        ("tool = 3\n", "tool"),
    ],
)
def test_a_wrong_setting_is_a_value_error_that_names_the_file(tmp_path, monkeypatch, text, reason):
    """
    A setting that cannot be right is told with its file and key, and never ignored.
    """
    (tmp_path / "pyproject.toml").write_text(text)
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ValueError, match=re.escape(reason)) as caught:
        default_runner()

    assert str(tmp_path / "pyproject.toml") in str(caught.value)


def test_a_file_that_is_not_text_is_a_value_error(tmp_path, monkeypatch):
    """
    A pyproject.toml that is not UTF-8 is told, too.
    """
    (tmp_path / "pyproject.toml").write_bytes(b"\xff\xfe")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ValueError, match="cannot be read"):
        default_runner()
