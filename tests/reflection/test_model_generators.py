"""The adapters for models, over real HTTP: what an endpoint can do to them, and what they make of it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

import pytest

from harness import Suite
from reflection import (
    AnthropicGenerator,
    Conversation,
    GeneratorError,
    Message,
    OpenAIGenerator,
    code_with_reflection,
)
from reflection.generators import retrying
from reflection.generators.retrying import LONGEST_SECONDS, TRIES
from tests.reflection.chat_server import (
    Answer,
    Behaviour,
    ChatServer,
    Cut,
    Garbage,
    MidStreamError,
    Silence,
    Status,
    chat_server,
)

CODE = "Here it is:\n\n```python\ndef add(a, b):\n    return a + b\n```\n"
TALK = Conversation(task="Write add.", messages=(Message("system", "You write code."), Message("user", "Write add.")))


class Pauses:
    """Keeps what it is asked to wait for, and does not."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


def openai(server: ChatServer, pauses: Pauses, seconds: float = 10) -> OpenAIGenerator:
    return OpenAIGenerator("m", server.openai, api_key="k", seconds=seconds, pause=pauses)


def anthropic(server: ChatServer, pauses: Pauses, seconds: float = 10) -> AnthropicGenerator:
    return AnthropicGenerator("m", server.root, api_key="k", seconds=seconds, pause=pauses)


Make = Callable[..., OpenAIGenerator | AnthropicGenerator]
both = pytest.mark.parametrize("make", [openai, anthropic])


@both
async def test_an_answer_comes_with_its_tokens(make: Make, pauses: Pauses):
    """
    A streamed answer is put together, and the endpoint's own count of tokens comes with it.
    """
    with chat_server(Answer(CODE)) as server:
        reply = await make(server, pauses).generate(TALK)

    assert reply.text == CODE
    assert (reply.tokens.prompt, reply.tokens.completion) == (11, 7)
    assert pauses.seconds == []


async def test_the_conversation_is_sent_to_openai_as_it_is(pauses: Pauses):
    """
    Roles and words arrive, and the key is sent as the protocol wants it.
    """
    with chat_server(Answer(CODE)) as server:
        await openai(server, pauses).generate(TALK)

    [request] = server.requests
    assert request["body"]["messages"] == [
        {"role": "system", "content": "You write code."},
        {"role": "user", "content": "Write add."},
    ]
    assert request["headers"]["Authorization"] == "Bearer k"


async def test_the_system_message_has_its_own_place_for_anthropic(pauses: Pauses):
    """
    Anthropic takes the system message apart from the conversation.
    """
    with chat_server(Answer(CODE)) as server:
        await anthropic(server, pauses).generate(TALK)

    [request] = server.requests
    assert request["body"]["system"] == "You write code."
    assert request["body"]["messages"] == [{"role": "user", "content": "Write add."}]


@pytest.mark.parametrize(("kind", "path"), [(OpenAIGenerator, "/v1"), (AnthropicGenerator, "")])
async def test_an_endpoint_of_ones_own_can_be_named_in_the_environment(
    kind: Callable[..., OpenAIGenerator | AnthropicGenerator], path: str, monkeypatch: pytest.MonkeyPatch
):
    """
    It needs no key; options go into the request.
    """
    with chat_server(Answer(CODE)) as server:
        for name in ("OPENAI", "ANTHROPIC"):
            monkeypatch.setenv(f"{name}_BASE_URL", server.root + path)
            monkeypatch.delenv(f"{name}_API_KEY", raising=False)
        reply = await kind("m", options={"max_tokens": 77}).generate(TALK)

    assert reply.text == CODE
    assert server.requests[0]["body"]["max_tokens"] == 77


async def test_tokens_are_estimated_where_nobody_counts_them(pauses: Pauses):
    """
    An endpoint that tells no usage still counts against a budget of tokens.
    """
    with chat_server(Answer(CODE, counted=False)) as server:
        reply = await openai(server, pauses).generate(TALK)

    assert reply.tokens.completion == len(CODE) // 4
    assert reply.tokens.prompt > 0


@both
@pytest.mark.parametrize(
    ("wish", "seconds"), [("7", 7.0), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0), ("soon", retrying.FIRST_SECONDS)]
)
async def test_the_endpoint_says_how_long_to_wait(make: Make, wish: str, seconds: float, pauses: Pauses):
    """
    After a 429 the next try comes when Retry-After says, in seconds or as a date, and else by our own clock.
    """
    with chat_server(Status(429, {"retry-after": wish}), Answer(CODE)) as server:
        reply = await make(server, pauses).generate(TALK)

    assert reply.text == CODE
    assert pauses.seconds == [seconds]


@both
@pytest.mark.parametrize(
    "trouble",
    [Status(500), Status(503), Cut(), Cut(polite=True), Garbage(), Garbage(b"data: {{{\n\n", "text/event-stream")],
    ids=str,
)
async def test_trouble_that_may_pass_is_sat_out(make: Make, trouble: Behaviour, pauses: Pauses):
    """
    A server error, a stream that is cut and an answer of garbage are asked again, after a growing pause.
    """
    with chat_server(trouble, trouble, Answer(CODE)) as server:
        reply = await make(server, pauses).generate(TALK)

    assert reply.text == CODE
    assert len(server.requests) == 3
    assert pauses.seconds == [retrying.FIRST_SECONDS, 2 * retrying.FIRST_SECONDS]


async def test_an_error_inside_a_stream_is_sat_out(pauses: Pauses):
    """
    Anthropic may report that it is overloaded after the answer has begun.
    """
    with chat_server(MidStreamError(), Answer(CODE)) as server:
        reply = await anthropic(server, pauses).generate(TALK)

    assert reply.text == CODE


@both
async def test_a_slow_answer_is_not_waited_for_forever(make: Make, pauses: Pauses):
    """
    An endpoint that is silent for longer than `seconds` is asked again.
    """
    answers = [Answer(CODE)] * (TRIES - 1)  # on a busy machine, one of them may come late, too
    with chat_server(Silence(), *answers) as server:
        reply = await make(server, pauses, seconds=0.2).generate(TALK)

    assert reply.text == CODE
    assert pauses.seconds[0] == retrying.FIRST_SECONDS


@both
async def test_trouble_that_stays_is_an_error_of_ours(make: Make, pauses: Pauses):
    """
    After the last try it is a GeneratorError that says what was seen.
    """
    with (
        chat_server(*[Status(500)] * TRIES) as server,
        pytest.raises(GeneratorError, match=f"answered 500.*Asked {TRIES} times"),
    ):
        await make(server, pauses).generate(TALK)

    assert len(server.requests) == TRIES


@both
@pytest.mark.parametrize("code", [400, 401, 404])
async def test_trouble_that_cannot_pass_is_told_at_once(make: Make, code: int, pauses: Pauses):
    """
    A wrong key or model is not asked for again; the error says what to check.
    """
    with chat_server(Status(code)) as server, pytest.raises(GeneratorError, match=f"answered {code}.*check the model"):
        await make(server, pauses).generate(TALK)

    assert len(server.requests) == 1


@both
async def test_nobody_waits_until_tomorrow(make: Make, pauses: Pauses):
    """
    An endpoint that wants us to wait for an hour is an error that says so.
    """
    with (
        chat_server(Status(429, {"retry-after": str(LONGEST_SECONDS + 3600)})) as server,
        pytest.raises(GeneratorError, match="asks to wait 3660 seconds"),
    ):
        await make(server, pauses).generate(TALK)

    assert pauses.seconds == []


@both
async def test_nobody_listens_at_the_address(make: Make, pauses: Pauses):
    """
    A connection that is refused is told as such.
    """
    with chat_server() as server:
        pass

    with pytest.raises(GeneratorError, match=r"connection to .* failed"):
        await make(server, pauses).generate(TALK)


@both
async def test_cancelling_gives_up_the_request(make: Make, pauses: Pauses):
    """
    A generation that is cancelled ends, though the endpoint never answers.
    """
    with chat_server(Silence()) as server:
        asking = asyncio.create_task(make(server, pauses).generate(TALK))
        await asyncio.to_thread(server.asked.wait)
        asking.cancel()

        with pytest.raises(asyncio.CancelledError):
            await asking


def test_a_missing_key_is_said_before_anything_is_asked(monkeypatch: pytest.MonkeyPatch):
    """
    Without a key and without an endpoint of one's own there is nobody to ask.
    """
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)

    with pytest.raises(GeneratorError, match="OPENAI_API_KEY"):
        OpenAIGenerator("m")
    with pytest.raises(GeneratorError, match="ANTHROPIC_API_KEY"):
        AnthropicGenerator("m")


@pytest.mark.parametrize(("kind", "sdk"), [(OpenAIGenerator, "openai"), (AnthropicGenerator, "anthropic")])
def test_a_missing_sdk_names_the_extra(kind: type, sdk: str, monkeypatch: pytest.MonkeyPatch):
    """
    An installation without the extra says which one to install.
    """
    monkeypatch.setitem(sys.modules, sdk, None)

    with pytest.raises(GeneratorError, match=rf"pip install 'reproof\[{sdk}\]'"):
        kind("m", api_key="k")


@both
async def test_the_loop_mends_code_over_http(make: Make, pauses: Pauses, bubblewrap_runner):
    """
    A model that is wrong, then says nothing of use, then is right: the feedback reaches it, and the tokens add up.
    """
    suite = Suite.from_code("from solution import add\n\ndef test_add():\n    assert add(1, 2) == 3\n")
    answers = [Answer(CODE.replace("+", "-")), Answer("I am sorry."), Answer(CODE)]

    with chat_server(*answers) as server:
        result = await code_with_reflection(
            "Write add(a, b).", suite, make(server, pauses), runner=bubblewrap_runner, max_iterations=5
        )

    assert result.passed
    assert [attempt.problem is None for attempt in result.attempts] == [True, False, True]
    assert result.tokens.total == 3 * 18
    last = server.requests[-1]["body"]["messages"]
    assert "expected:  3" in last[-3]["content"] and "no code in your reply" in last[-1]["content"]
