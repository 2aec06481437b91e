"""A command-line agent as a generator: real processes, in a scratch folder."""

from __future__ import annotations

import asyncio
import os
import select
import shlex
import sys
from pathlib import Path

import pytest

from harness import Submission, Suite
from reflection import CommandGenerator, Conversation, GeneratorError, Message, Turn, code_with_reflection
from reflection.generators.command import LONGEST_OUTPUT

SUITE = Suite.from_code("from solution import add\n\ndef test_add():\n    assert add(1, 2) == 3\n")
WRONG = Submission.from_code("def add(a, b):\n    return a - b\n")
PATIENCE = 20


def agent(script: str) -> CommandGenerator:
    return CommandGenerator([sys.executable, "-c", script])


def talk(submission: Submission | None = None, feedback: str = "") -> Conversation:
    turns = (Turn(submission, (), feedback),) if submission is not None else ()
    return Conversation(task="Write add.", messages=(Message("user", "Write add."),), turns=turns)


async def test_the_files_that_it_changed_are_the_candidate():
    """
    What is changed, added and removed in the scratch copy is taken; the original stays where it is.
    """
    before = Submission.from_files({"a.py": "1\n", "b.py": "2\n"})
    script = "import os; open('a.py', 'w').write('3\\n'); os.remove('b.py'); open('c.py', 'w').write('4\\n')"

    reply = await agent(script).generate(talk(before, "It fails."))

    assert reply.submission == Submission.from_files({"a.py": "3\n", "c.py": "4\n"})


async def test_it_reads_the_task_and_the_feedback():
    """
    Both are on stdin.
    """
    reply = await agent("import sys; open('seen.txt', 'w').write(sys.stdin.read())").generate(talk(WRONG, "It fails."))

    seen = reply.submission.files["seen.txt"].decode()
    assert "Write add." in seen and "It fails." in seen


async def test_what_it_prints_is_read_if_it_changes_nothing():
    """
    A program that answers like a model is as good.
    """
    reply = await agent("print('```python')\nprint('x = 1')\nprint('```')").generate(talk())

    assert reply.submission is None and "x = 1" in reply.text


@pytest.mark.parametrize(
    ("generator", "told"),
    [
        (CommandGenerator("no-such-agent-anywhere"), "cannot be started"),
        (agent("import sys; print('out of credit'); sys.exit(3)"), "status 3 and changed no file.*out of credit"),
        (CommandGenerator([sys.executable, "-c", "import signal; signal.pause()"], seconds=0.3), "not done after 0.3"),
        (agent("import os; os.symlink('/etc/passwd', 'stolen')"), "leads out"),
    ],
    ids=["missing", "failing", "hanging", "linking out"],
)
async def test_an_agent_that_fails_is_an_error_of_ours(generator, told):
    """
    It is said who failed and how, and it is nobody's wrong code.
    """
    with pytest.raises(GeneratorError, match=told):
        await generator.generate(talk())


@pytest.mark.parametrize("moment", ["while it starts", "while it runs"])
async def test_cancelling_ends_all_that_it_started(tmp_path: Path, moment: str):
    """
    Also the children of the agent, which it leaves in the background.
    """
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    script = f"import os, signal; os.fork(); os.write(os.open({str(pipe)!r}, os.O_WRONLY), b'x'); signal.pause()"

    running = asyncio.create_task(agent(script).generate(talk()))
    if moment == "while it starts":
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        heard = select.select([reading], [], [], PATIENCE)  # it runs, and meanwhile nobody here is told so
    else:
        heard = await asyncio.to_thread(select.select, [reading], [], [], PATIENCE)
    running.cancel()
    await asyncio.wait([running], timeout=PATIENCE)

    assert heard[0] and running.cancelled()
    nobody_writes = select.poll()
    nobody_writes.register(reading, select.POLLHUP)
    assert nobody_writes.poll(PATIENCE * 1000)
    os.close(reading)


async def test_what_it_leaves_running_is_not_waited_for():
    """
    A helper in the background that holds the agent's output open is ended with the agent.
    """
    script = "import os, signal; os.fork() or signal.pause(); open('a.py', 'w').write('1'); print('done')"

    reply = await agent(script).generate(talk())

    assert reply.submission.files == {"a.py": b"1"} and reply.text == "done\n"


async def test_of_a_long_output_the_end_is_kept():
    """
    What an agent answers stands at the end of what it says.
    """
    reply = await agent("print('x' * 300_000); print('the end')").generate(talk())

    assert reply.text.endswith("x\nthe end\n") and len(reply.text) == LONGEST_OUTPUT


def test_a_command_is_a_line_or_a_list():
    """
    Words are taken apart as a shell would; an empty line is refused.
    """
    assert CommandGenerator(f"{shlex.quote('/opt/my agent')} --yes").name == "command:my agent"
    with pytest.raises(ValueError, match="is empty"):
        CommandGenerator("")


async def test_the_loop_mends_code_with_a_command(bubblewrap_runner):
    """
    An agent that edits the file in place, in the folder that it is started in.
    """
    script = "s = open('solution.py').read(); open('solution.py', 'w').write(s.replace('-', '+'))"

    result = await code_with_reflection("Mend add.", SUITE, agent(script), start=WRONG, runner=bubblewrap_runner)

    assert result.passed and result.iterations == 1


def test_signals_are_not_ours():
    """
    The agent has a session of its own: an interrupt at the terminal reaches us, and we end it.
    """
    reply = asyncio.run(agent("import os; open('sid', 'w').write(str(os.getsid(0)))").generate(talk()))

    assert int(reply.submission.files["sid"]) != os.getsid(0)
