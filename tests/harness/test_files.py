"""Files by relative path: what is taken, what is left out, what is refused."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness import files

names = st.text(st.characters(exclude_characters="/\0", exclude_categories=("Cs",)), min_size=1, max_size=20).filter(
    lambda name: name not in (".", "..")
)
relative_paths = st.lists(names, min_size=1, max_size=5).map("/".join)


def write(root: Path, tree: dict[str, str]) -> Path:
    for name, text in tree.items():
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return root


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


def repository(folder: Path, tree: dict[str, str]) -> Path:
    write(folder, tree)
    git(folder, "init")
    git(folder, "add", "--all")
    git(folder, "commit", "--message", "first")
    return folder


# --- paths --------------------------------------------------------------------


@given(relative_paths)
@example("a file.py")
@example("naïve/☃.py")
@example("line\nbreak.py")
@example("-rf")
@example("...")
def test_an_ordinary_relative_path_is_taken(path):
    """
    Any relative path of ordinary names is a path, with spaces, unicode and newlines in it.
    """
    assert files.check_path(path) is None


@given(st.text(st.sampled_from("a./\0 "), max_size=12))
@example("../x")
@example("a/../../x")
@example("/etc/passwd")
@example("a//b")
@example("a/./b")
@example("a/")
@example("")
@example("a\0b")
def test_an_accepted_path_names_one_place_inside(path):
    """
    A path is either refused with a ValueError or is the one way to write a place inside the workspace.
    """
    try:
        files.check_path(path)
    except ValueError:
        return

    assert os.path.normpath(os.path.join("/workspace", path)) == "/workspace/" + path
    assert "\0" not in path


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "is empty"),
        ("../x", "leaves the workspace"),
        ("/x", "is absolute"),
        ("a\0b", "holds a NUL"),
        ("a//b", "empty or '.' part"),
        ("\ud800", "cannot be a file name"),
        ("x" * 256, "longer than a file system takes"),
        ("é" * 200, "longer than a file system takes"),
        ("a/" * 2_000 + "b", "longer than a file system takes"),
        (7, "not a string"),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_a_bad_path_is_refused_with_the_reason(path, reason):
    """
    What is wrong with a path is said, and the path is named, but never at great length.
    """
    with pytest.raises(ValueError, match=reason) as caught:
        files.check_path(path)

    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("path", ["a/b", "a/b/c/d"])
def test_a_path_cannot_be_both_file_and_directory(path):
    """
    A file cannot stand where another file needs a directory.
    """
    with pytest.raises(ValueError, match="'a' is a file"):
        files.check_together({"a": b"", path: b""})


@given(st.sets(relative_paths, max_size=6))
def test_paths_that_fit_together_can_be_written(paths):
    """
    Paths that are accepted together need no place both as a file and as a directory.
    """
    try:
        files.check_together(dict.fromkeys(paths))
    except ValueError:
        return
    folders = {str(parent) for path in paths for parent in PurePosixPath(path).parents}

    assert not folders & paths


# --- directories --------------------------------------------------------------


def test_a_file_is_taken_under_its_own_name(tmp_path):
    """
    One file is a submission of one file, wherever it stands.
    """
    write(tmp_path, {"deep/inside/solution.py": "x = 1"})

    assert files.read(tmp_path / "deep/inside/solution.py") == {"solution.py": b"x = 1"}


def test_a_directory_is_taken_whole(tmp_path):
    """
    A directory's files are taken at every depth, by their path from it, hidden ones and odd names included.
    """
    tree = {"a.py": "1", "pkg/b.py": "2", "pkg/sub/c d.py": "3", ".hidden": "4", "new\nline.py": "5"}
    write(tmp_path, tree)

    assert files.read(tmp_path) == {name: text.encode() for name, text in tree.items()}


def test_git_and_byte_code_are_never_taken(tmp_path):
    """
    A repository's own data and Python's caches are no part of anybody's code.
    """
    write(
        tmp_path, {".git/config": "", "__pycache__/a.cpython-311.pyc": "", "pkg/b.pyc": "", "a.py": "", "pkg/.git": ""}
    )

    assert set(files.read(tmp_path)) <= {"a.py", "pkg/.git"}


def test_no_gitignore_brings_git_back(tmp_path):
    """
    A .gitignore that re-includes everything still does not make the repository's own data a submission.
    """
    write(tmp_path, {".gitignore": "*\n!*/\n!*\n", ".git/config": "", "a.py": ""})

    assert set(files.read(tmp_path)) == {".gitignore", "a.py"}


@pytest.mark.parametrize(
    ("rules", "kept"),
    [
        ({".gitignore": "*.log"}, {"a.py", "keep/b.py", "keep/deep/c.py", "build/d.py"}),
        ({".gitignore": "build/"}, {"a.py", "a.log", "keep/b.py", "keep/b.log", "keep/deep/c.py"}),
        ({".gitignore": "/a.*"}, {"keep/b.py", "keep/b.log", "keep/deep/c.py", "build/d.py"}),
        ({".gitignore": "*.log\n!b.log"}, {"a.py", "keep/b.py", "keep/b.log", "keep/deep/c.py", "build/d.py"}),
        ({".gitignore": "keep/\n!keep/b.py"}, {"a.py", "a.log", "build/d.py"}),
        ({".gitignore": "keep/*\n!keep/b.py"}, {"a.py", "a.log", "build/d.py", "keep/b.py"}),
        ({".gitignore": "**/c.py\n# comment\n\n"}, {"a.py", "a.log", "keep/b.py", "keep/b.log", "build/d.py"}),
        ({".gitignore": "*\n!*/\n!*.py"}, {"a.py", "keep/b.py", "keep/deep/c.py", "build/d.py"}),
        ({"keep/.gitignore": "*.log"}, {"a.py", "a.log", "keep/b.py", "keep/deep/c.py", "build/d.py"}),
        ({"keep/.gitignore": "/c.py"}, {"a.py", "a.log", "keep/b.py", "keep/b.log", "keep/deep/c.py", "build/d.py"}),
        (
            {".gitignore": "*.log", "keep/.gitignore": "!b.log"},
            {"a.py", "keep/b.py", "keep/b.log", "keep/deep/c.py", "build/d.py"},
        ),
        ({"keep/.gitignore": "*", "build/.gitignore": "*.txt"}, {"a.py", "a.log", "build/d.py"}),
    ],
    ids=lambda value: ascii(value) if isinstance(value, dict) else "",
)
def test_gitignore_decides_as_git_does(tmp_path, rules, kept):
    """
    What a .gitignore names is left out: what we take of a directory is what git itself would add.
    """
    tree = dict.fromkeys(["a.py", "a.log", "keep/b.py", "keep/b.log", "keep/deep/c.py", "build/d.py"], "")
    write(tmp_path, {**tree, **rules})
    git(tmp_path, "init")
    command = ["git", "-C", str(tmp_path), "ls-files", "--others", "--exclude-standard"]
    by_git = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()

    taken = set(files.read(tmp_path))

    assert taken == set(by_git)
    assert taken - set(rules) == kept


def test_a_link_inside_is_followed(tmp_path):
    """
    A link to a file of the same directory is that file.
    """
    write(tmp_path, {"real.py": "x"})
    (tmp_path / "alias.py").symlink_to("real.py")

    assert files.read(tmp_path) == {"real.py": b"x", "alias.py": b"x"}


@pytest.mark.parametrize("target", ["secret.txt", "nowhere", "."], ids=["file", "dangling", "directory"])
def test_a_link_that_leads_out_is_refused(tmp_path, target):
    """
    A link out of the directory is refused, whatever stands at its other end: it could be anyone's secret.
    """
    write(tmp_path, {"secret.txt": "s", "inside/a.py": ""})
    (tmp_path / "inside" / "link").symlink_to(tmp_path / target)

    with pytest.raises(ValueError, match=r"'link'.*leads out"):
        files.read(tmp_path / "inside")


def test_a_link_that_leads_nowhere_inside_is_left_out(tmp_path):
    """
    A dangling link that stays inside is no file, and no reason to stop.
    """
    write(tmp_path, {"a.py": ""})
    (tmp_path / "dangling").symlink_to("gone.py")

    assert set(files.read(tmp_path)) == {"a.py"}


def test_a_link_to_itself_is_a_value_error_or_left_out(tmp_path):
    """
    A link that leads to itself crashes nothing.
    """
    write(tmp_path, {"a.py": ""})
    (tmp_path / "loop").symlink_to("loop")

    try:
        found = set(files.read(tmp_path))
    except ValueError:
        return

    assert found == {"a.py"}


def test_what_is_not_there_is_a_value_error(tmp_path):
    """
    A path that does not exist is told by name.
    """
    with pytest.raises(ValueError, match=r"nothing-here.*no such file or directory"):
        files.read(tmp_path / "nothing-here")


@pytest.mark.parametrize("whole", [True, False], ids=["directory", "file"])
def test_too_much_is_refused(tmp_path, whole):
    """
    More than a sandbox is ever sent is refused before anything is started.
    """
    with (tmp_path / "large.bin").open("wb") as file:
        file.truncate(files.MOST_BYTES + 1)

    with pytest.raises(ValueError, match="holds more than 128 MB"):
        files.read(tmp_path if whole else tmp_path / "large.bin")


# --- git refs -----------------------------------------------------------------


def test_a_ref_gives_the_files_as_they_were(tmp_path):
    """
    The files of a ref come as they were committed, whatever the working tree holds now.
    """
    repository(tmp_path, {"tests/test_a.py": "right", "tests/data/x.txt": "data", "solution.py": ""})
    write(tmp_path, {"tests/test_a.py": "weakened", "tests/test_new.py": ""})

    found = files.read_ref(tmp_path, "HEAD:tests")

    assert found == {"tests/test_a.py": b"right", "tests/data/x.txt": b"data"}


@pytest.mark.parametrize("inside", ["", "src", "src/solution.py"])
def test_a_ref_is_read_from_the_top_of_the_repository(tmp_path, inside):
    """
    The path of REF:PATH is from the repository's top, wherever in it the submission stands.
    """
    repository(tmp_path, {"tests/test_a.py": "t", "src/solution.py": ""})

    assert files.read_ref(tmp_path / inside, "main:tests/test_a.py") == {"tests/test_a.py": b"t"}


def test_a_ref_with_an_odd_name_in_it(tmp_path):
    """
    File names with spaces, quotes, unicode and newlines come out of a ref as they are.
    """
    tree = {'tests/a "quoted" ☃.py': "1", "tests/new\nline.py": "2"}
    repository(tmp_path, tree)

    assert files.read_ref(tmp_path, "main:tests") == {name: text.encode() for name, text in tree.items()}


@pytest.mark.parametrize("path", ["", ".", "tests/", "./tests"])
def test_a_ref_takes_a_path_as_people_write_it(tmp_path, path):
    """
    An empty path is the whole tree, and a slash at the end or a dot in front changes nothing.
    """
    repository(tmp_path, {"tests/test_a.py": "t"})

    assert files.read_ref(tmp_path, f"main:{path}") == {"tests/test_a.py": b"t"}


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("main", "is not REF:PATH"),
        (":tests", "is not REF:PATH"),
        ("no-such-ref:tests", "no-such-ref"),
        ("main:nothing", "'nothing' holds no file at 'main'"),
    ],
)
def test_a_wrong_ref_is_a_value_error(tmp_path, reference, reason):
    """
    A ref or a path that is not there is told by name.
    """
    repository(tmp_path, {"tests/test_a.py": "t"})

    with pytest.raises(ValueError, match=reason):
        files.read_ref(tmp_path, reference)


def test_a_ref_needs_a_repository(tmp_path):
    """
    Outside of a repository there is nothing to take a suite from.
    """
    with pytest.raises(ValueError, match="not a git repository"):
        files.read_ref(tmp_path, "main:tests")


def test_a_repository_runs_none_of_its_own_programs(tmp_path):
    """
    Reading a ref of a candidate's repository starts nothing that its configuration names.
    """
    repository(tmp_path, {"tests/test_a.py": "t", ".gitattributes": "* filter=evil diff=evil\n"})
    touched = tmp_path / "touched"
    for key in ("core.fsmonitor", "filter.evil.smudge", "diff.evil.textconv", "core.pager"):
        git(tmp_path, "config", key, f"touch {touched}; cat")

    files.read_ref(tmp_path, "main:tests")

    assert not touched.exists()
