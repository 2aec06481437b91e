"""What models write, and the files that are read out of it."""

from __future__ import annotations

import contextlib
import difflib
import re

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from harness import Submission
from reflection import Unreadable, read_reply
from reflection.replies import blocks_of

CODE = "def add(a, b):\n    return a + b\n"
OTHER = "def sub(a, b):\n    return a - b\n"
ONE = Submission.from_code("def add(a, b):\n    return a - b\n")
TWO = Submission.from_files({"pkg/one.py": CODE, "pkg/two.py": OTHER})


def texts(submission: Submission) -> dict[str, str]:
    return {path: data.decode() for path, data in submission.files.items()}


@pytest.mark.parametrize(
    "reply",
    [
        f"```python\n{CODE}```",
        f"Sure! Here it is:\n\n```py\n{CODE}```\n\nIt adds.",
        f"```\n{CODE}```",
        f"~~~python\n{CODE}~~~",
        f"````python\n{CODE}````",
        f"Use it like so:\n```python\nadd(1, 2)\n```\nThe file:\n```python\n{CODE}```",
        f"```bash\npip install nothing-at-all-of-great-length-but-no-code\n```\n```python\n{CODE}```",
        CODE,
        f"Sure! Here it is:\n\n{CODE}\n- It adds.\n  - It does not import os.",
        f"```python\n{CODE}```".replace("\n", "\r\n"),
    ],
    ids=[
        "one",
        "prose",
        "no language",
        "tildes",
        "long fence",
        "example beside it",
        "shell",
        "no fence",
        "no fence, and prose",
        "crlf",
    ],
)
def test_one_file_is_found_in_whatever_stands_around_it(reply):
    """
    One block, or the file without any fence, is the submission's one file.
    """
    assert texts(read_reply(reply)) == {"solution.py": CODE}


def test_a_file_without_a_fence_is_taken_with_its_mistakes():
    """
    Whether it can be loaded is for Python to say.
    """
    code = 'import re\n\nTABLE = {\n    "a": 1,\n}\n\n@cached\ndef add(a, b:\n    return a\n\n    + b\n'

    assert texts(read_reply(f"Here it is:\n{code}\nIt adds.")) == {"solution.py": code}


def test_a_fence_inside_of_the_code_does_not_end_it():
    """
    An example in a docstring is indented like the docstring.
    """
    code = 'def add(a, b):\n    """Like so:\n\n    ```\n    add(1, 2)\n    ```\n    """\n    return a + b\n'

    assert texts(read_reply(f"```python\n{code}```\nDone.")) == {"solution.py": code}


@pytest.mark.parametrize("path", ["test_solution.py", "tests/test_it.py", "it_test.py", "README.md"])
def test_the_code_is_not_lost_beside_files_that_are_none(path):
    """
    Tests and notes often come with their path and the code without: both are taken.
    """
    reply = f"```python\n{CODE}```\n\nAnd tests:\n\n{path}\n```python\n{OTHER * 3}```"

    assert texts(read_reply(reply)) == {"solution.py": CODE, path: OTHER * 3}


@pytest.mark.parametrize(
    "shape",
    [
        "```python pkg/one.py\n{}```",
        "```python:pkg/one.py\n{}```",
        '```python title="pkg/one.py"\n{}```',
        "pkg/one.py\n```python\n{}```",
        "**pkg/one.py**\n\n```python\n{}```",
        "### `pkg/one.py`:\n```python\n{}```",
        "File: pkg/one.py\n```\n{}```",
        "#### 1. `pkg/one.py`\n```\n{}```",
        "**pkg/one.py** (updated)\n```\n{}```",
        "Here is the new `pkg/one.py`, which subtracts:\n\n```\n{}```\nIt is called so:\n```\nsub(1, 2)\n```",
    ],
)
def test_a_path_is_found_where_models_put_it(shape):
    """
    In the info string, on the line before the block, decorated or not, or as the one file that this line speaks of.
    """
    assert texts(read_reply(shape.format(OTHER), TWO)) == {"pkg/one.py": OTHER, "pkg/two.py": OTHER}


def test_tests_alone_are_not_the_code():
    """
    A block that says that it holds tests is nothing else.
    """
    reply = "test_it.py\n```python\nfrom solution import add\n```"

    assert texts(read_reply(reply, ONE)) == {**texts(ONE), "test_it.py": "from solution import add\n"}


def test_an_example_beside_a_file_that_is_no_code_is_an_example():
    """
    Where there is code already, a block without a path does not take its place.
    """
    reply = "config.json\n```json\n{}\n```\nUse it like so:\n```python\nadd(1, 2)\n```"

    assert texts(read_reply(reply, ONE))["solution.py"] == texts(ONE)["solution.py"]


def test_a_path_in_the_first_line_of_the_block_counts():
    """
    A comment that is nothing but a path says what the file is.
    """
    reply = f"```python\n# pkg/one.py\n{OTHER}```"

    assert texts(read_reply(reply, TWO))["pkg/one.py"] == f"# pkg/one.py\n{OTHER}"


def test_several_files_come_with_their_paths():
    """
    Files that are named are replaced or added, the others stay.
    """
    reply = f"pkg/two.py\n```python\n{CODE}```\n\npkg/new.py\n```python\n{OTHER}```"

    assert texts(read_reply(reply, TWO)) == {"pkg/one.py": CODE, "pkg/two.py": CODE, "pkg/new.py": OTHER}


def test_a_block_without_a_path_replaces_the_only_file():
    """
    If there is one file, whatever its name, it is the one that is meant.
    """
    before = Submission.from_code(OTHER, "deep/module.py")

    assert texts(read_reply(f"```python\n{CODE}```", before)) == {"deep/module.py": CODE}


def test_a_block_that_could_be_any_file_is_asked_for_again():
    """
    Code that cannot be placed is not guessed at; the files are named to the model.
    """
    with pytest.raises(Unreadable, match=r"which file.*pkg/one\.py, pkg/two\.py"):
        read_reply(f"```python\n{CODE}```", TWO)


@pytest.mark.parametrize(
    "reply",
    ["", "I cannot do that.", "Sorry", "Well.\n\nimport os is not to be had.", "```bash\nls\n```", "```python\n```"],
)
def test_a_reply_without_code_is_told_so(reply):
    """
    Prose, a shell command or an empty block is no code.
    """
    with pytest.raises(Unreadable, match="no code in your reply"):
        read_reply(reply)


@pytest.mark.parametrize("language", ["python", "diff"])
def test_a_reply_that_was_cut_off_is_not_run(language):
    """
    A block that does not end is half of something.
    """
    with pytest.raises(Unreadable, match="cut off"):
        read_reply(f"```{language}\n--- a/x\n+++ b/x\n@@\n{CODE}", ONE)


@pytest.mark.parametrize("path", ["../x.py", "/etc/x.py", "a/../../x.py"])
def test_a_path_that_leaves_the_workspace_is_refused(path):
    """
    The model is told which path is wrong; nothing is written anywhere.
    """
    with pytest.raises(Unreadable, match="cannot be taken"):
        read_reply(f"--- /dev/null\n+++ {path}\n@@ -0,0 +1 @@\n+x = 1\n", ONE)


# --- diffs --------------------------------------------------------------------

DIFF = """\
--- a/solution.py
+++ b/solution.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return a - b
+    return a + b
"""


@pytest.mark.parametrize(
    "reply",
    [
        DIFF,
        f"This mends it:\n\n```diff\n{DIFF}```\nDone.",
        "diff --git a/solution.py b/solution.py\nindex 1..2 100644\n" + DIFF,
        DIFF.replace("@@ -1,2 +1,2 @@", "@@ -40,9 +41,7 @@ def nothing"),
        DIFF.replace("@@ -1,2 +1,2 @@", "@@"),
        DIFF.replace("a/solution", "solution").replace("b/solution", "solution"),
        DIFF.replace("    return a - b", "    return a - b   "),
        DIFF + "\n\n",
    ],
    ids=["plain", "fenced", "git", "wrong numbers", "no numbers", "no prefix", "blanks at the end", "air behind"],
)
def test_a_diff_is_applied_as_it_is_meant(reply):
    """
    Models count lines badly; the lines themselves say where a hunk belongs.
    """
    assert texts(read_reply(reply, ONE)) == {"solution.py": CODE}


def test_a_diff_that_does_not_fit_says_which_lines_are_not_there():
    """
    The model gets its own lines back, and is asked for the whole file.
    """
    with pytest.raises(Unreadable, match=r"hunk 1 of solution\.py[^`]*return a \* b[^`]*complete file"):
        read_reply(DIFF.replace("a - b", "a * b"), ONE)


def test_a_diff_of_a_file_that_is_not_there_names_those_that_are():
    """
    A wrong path is told with the right ones.
    """
    with pytest.raises(Unreadable, match=r"no such file; the files are pkg/one\.py, pkg/two\.py"):
        read_reply(DIFF, TWO)


def test_a_diff_adds_and_removes_files():
    """
    /dev/null on either side is a file that comes or goes.
    """
    reply = "--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+x = 1\n--- a/pkg/one.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-y\n"

    assert texts(read_reply(reply, TWO)) == {"new.py": "x = 1\n", "pkg/two.py": OTHER}


def test_a_diff_keeps_the_line_ends_of_the_file():
    """
    A file with CRLF stays one.
    """
    before = Submission.from_code("def add(a, b):\r\n    return a - b\r\n")

    assert read_reply(DIFF, before).files["solution.py"] == CODE.replace("\n", "\r\n").encode()


def test_a_diff_without_a_change_is_told_so():
    """
    Headers alone are no patch.
    """
    with pytest.raises(Unreadable, match="holds no change"):
        read_reply("```diff\n--- a/solution.py\n+++ b/solution.py\n```", ONE)


# --- any reply ----------------------------------------------------------------

LINE = st.text(st.characters(codec="utf-8", exclude_characters="\r\n")).filter(
    lambda line: line == line.rstrip() and not line.startswith(("--", "++"))  # in a diff, these are headers
)
LINES = st.lists(LINE, min_size=1)
SCRAPS = st.sampled_from(
    ["```", "```python", "~~~", "--- a/solution.py", "+++ b/solution.py", "@@ -1 +1 @@", "@@", "+x = 1", "-y", " z", ""]
)


@given(st.lists(st.one_of(SCRAPS, st.text()), max_size=12).map("\n".join))
@example("```python\n\ud800```")
@example("--- a\n+++ b\n@@ -1 +1 @@")
def test_no_reply_is_a_crash(reply):
    """
    Whatever a model says becomes a submission or a reason.
    """
    with contextlib.suppress(Unreadable):
        assert isinstance(read_reply(reply, ONE), Submission)


def diff_of(old: list[str], new: list[str], context: int) -> str:
    lines = difflib.unified_diff(old, new, "a/x.py", "b/x.py", lineterm="", n=context)
    return "".join(line + "\n" for line in lines)


def joined(lines: list[str]) -> str:
    return "".join(line + "\n" for line in lines)


@given(LINES, LINES, st.integers(0, 3))
def test_what_difflib_says_is_what_comes(old, new, context):
    """
    A diff of any two texts, applied to the first, is the second.
    """
    assume(old != new)

    changed = read_reply(diff_of(old, new, context), Submission.from_code(joined(old), "x.py"))

    assert changed.files["x.py"].decode() == joined(new)


@given(st.lists(LINE, unique=True, min_size=1), st.data())
def test_numbers_do_not_matter_where_lines_are_unique(old, data):
    """
    One changed line is found by itself, whatever the hunk says of its place.
    """
    index = data.draw(st.integers(0, len(old) - 1))
    new = [*old[:index], old[index] + "!", *old[index + 1 :]]
    diff = re.sub(
        r"@@ .* @@", data.draw(st.sampled_from(["@@", "@@ -1 +1 @@", "@@ -999,1 +7,2 @@"])), diff_of(old, new, 3)
    )

    changed = read_reply(diff, Submission.from_code(joined(old), "x.py"))

    assert changed.files["x.py"].decode() == joined(new)


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,8}(/[a-z]{1,8}){0,2}\.py", fullmatch=True),
        st.text(st.characters(codec="utf-8", exclude_characters="\r`~")).map(lambda text: text + "\n"),
        min_size=1,
        max_size=4,
    )
)
def test_files_that_are_named_come_back_as_they_are(files):
    """
    Blocks with a path before each carry any text without fences in it.
    """
    paths = set(files)
    if any(other.startswith(path + "/") for path in paths for other in paths):
        return
    reply = "\n\n".join(f"{path}\n```python\n{text}```" for path, text in files.items())

    blocks = {block.path: block.text for block in blocks_of(reply)}

    assert blocks == files
