"""The judge's end of the two pipes: whatever comes through them, it is a value or a clear failure."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runners.guest.judging import CandidateLost, Connection
from runners.guest.standins import StandIn, StandInType


class Supervisor:
    """Hears that the candidate is lost, and has no other one."""

    def send(self, event):
        pass

    def lost(self):
        pass

    def renew(self):
        return None


@contextmanager
def connected(data: bytes, lent: object = None) -> Iterator[Connection]:
    """A judge whose candidate says just this, and then closes its end."""
    (asked, requests), (answers, said) = os.pipe(), os.pipe()

    def say() -> None:
        with suppress(OSError):
            os.write(said, data)
        os.close(said)

    speaking = threading.Thread(target=say)
    speaking.start()
    connection = Connection(requests, answers, Supervisor(), Supervisor(), "/nowhere", 1 << 20)
    if lent is not None:
        connection.lend_as(lent)
    try:
        yield connection
    finally:
        os.close(asked)
        if connection.lost is None:
            for fd in (requests, answers):
                os.close(fd)
        speaking.join()


def framed(message: object) -> bytes:
    data = json.dumps(message).encode()
    return len(data).to_bytes(4, "big") + data


@given(st.binary())
def test_any_bytes_are_a_lost_candidate(data):
    """
    Bytes that are no frame of ours end the conversation, and the call fails with a reason.
    """
    with connected(data) as connection, pytest.raises(CandidateLost, match=r"ended|cannot be read"):
        connection.ask("call")


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
words = st.sampled_from([*"=!?o", "h", "k", "e", "y", "T", "t", "l", "call", "get", "__class__", "builtins", "type"])
anything = st.recursive(
    scalars | words,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=3) | words, inner, max_size=3),
    max_leaves=20,
)
descriptions = st.fixed_dictionaries(
    dict.fromkeys(
        ("name", "module", "qualname", "doc", "bases", "specials", "methods", "hashable", "content", "iterable"),
        anything,
    )
)
extras = st.fixed_dictionaries(
    {},
    optional={
        "k": st.lists(st.tuples(st.integers(0, 3), descriptions | anything).map(list)),
        "o": anything,
        "r": anything,
    },
)
answers = st.tuples(st.sampled_from("=!"), anything, anything, anything, extras | anything).map(list)
questions = st.tuples(
    st.just("?"), words | anything, st.lists(anything, max_size=3), st.just({}), st.just([]), st.just([]), extras
).map(list)


@given(st.lists(answers | questions | anything, min_size=1, max_size=3))
@example([["=", ["T", "os", "system"], [], [], {}]])
@example([["=", ["T", "builtins", "exec"], [], [], {}]])
@example([["?", "call", [["T", "builtins", "type"]], {}, [], [], {}]])
def test_any_messages_are_a_value_or_a_lost_candidate(messages):
    """
    What is framed well and says something else than our own code would is refused, not believed.
    """
    with connected(b"".join(map(framed, messages))) as connection:
        try:
            value = connection.ask("call")
        except CandidateLost:
            return
        except BaseException as exc:  # what the candidate says that it raised
            value = exc

    known = (int, float, str, bytes, list, tuple, dict, set, frozenset, type(None), BaseException, slice, range)
    assert isinstance(value, (*known, StandIn, StandInType, type)) or type(value).__module__ != "builtins"


class Secret:
    """What a test hands in: its public name is for the candidate, the rest is not."""

    public = 1
    _private = 2


@pytest.mark.parametrize(
    ("operation", "operands"),
    [
        ("get", ["_private"]),
        ("get", ["__class__"]),
        ("get", ["__dict__"]),
        ("set", ["__class__", 1]),
        ("method", ["__reduce__"]),
        ("method", ["__init_subclass__"]),
    ],
)
def test_only_what_is_public_of_a_lent_object_is_for_the_candidate(operation, operands):
    """
    Nothing of the judge's side can be reached through an object that a test hands in.
    """
    question = framed(["?", operation, [["y", 1], *operands], {}, [], [], {}])
    lent = Secret()

    with connected(question + framed(["=", "done", [], [], {}]), lent) as connection:
        assert connection.ask("call") == "done"

    assert vars(lent) == {} and type(lent) is Secret


@pytest.mark.parametrize("target", [["y", 2], ["T", "builtins", "object"], "text", ["t", []]])
def test_the_candidate_can_use_only_what_it_was_lent(target):
    """
    A question about anything else is no question that our own code would ask.
    """
    question = framed(["?", "get", [target, "public"], {}, [], [], {}])

    with connected(question, Secret()) as connection, pytest.raises(CandidateLost):
        connection.ask("call")
