"""What the guest has of the standard library without all of it does what the whole does."""

from __future__ import annotations

import base64
import ctypes
import importlib
import json
import math
import os
import struct
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.guest import light

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
)


@pytest.fixture(params=["in C", "in Python"], scope="module")
def ways(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """The module as it is, and in a Python that has no JSON in C."""
    here = sys.modules["_json"]
    if request.param == "in Python":
        sys.modules["_json"] = None  # type: ignore[assignment]
    try:
        yield importlib.reload(light)
    finally:
        sys.modules["_json"] = here
        importlib.reload(light)


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same, where a NaN is one."""
    return json.dumps(one) == json.dumps(other)


@given(value=values)
def test_what_is_written_is_read(ways, value):
    """
    And it is what `json` would write, without white space.
    """
    written = ways.json_writer(ascii_only=True, nan=True)(value)

    assert written == json.dumps(value, separators=(",", ":"))
    assert same(ways.json_reader()(written.encode()), value)


@given(value=values.filter(lambda value: json.dumps(value, ensure_ascii=False).isprintable()))
def test_text_can_stay_as_it_is(ways, value):
    """
    In UTF-8, as the two processes of a job speak.
    """
    written = ways.json_writer(ascii_only=False, nan=True)(value)

    assert same(ways.json_reader()(written.encode()), value)


@given(data=st.binary(max_size=20) | st.text(alphabet='[]{},:"0123456789.eE-+ntfuslar \\', max_size=12).map(str.encode))
def test_what_is_no_value_is_refused(ways, data):
    """
    What is read is read by `json`, too; nothing else is raised than a ValueError.
    """
    try:
        value = ways.json_reader()(data)
    except ValueError:
        return

    assert same(value, json.loads(data))


@pytest.mark.parametrize("data", [b"", b" ", b"1 ", b" 1", b"1 2", b"[1", b"nul", b"\xff", b'"\n"'])
def test_nothing_stands_beside_a_value(ways, data):
    """
    Our own writer puts nothing there.
    """
    with pytest.raises(ValueError):
        ways.json_reader()(data)


def test_numbers_that_json_has_not_are_refused_where_they_are_to_be(ways):
    """
    On the wire to the host there is no NaN.
    """
    with pytest.raises(ValueError):
        ways.json_writer(ascii_only=True, nan=False)([math.inf])


def test_what_is_no_json_is_not_written(ways):
    """
    Nothing is written as something else.
    """
    with pytest.raises(TypeError):
        ways.json_writer(ascii_only=True, nan=True)({"a": object()})


def test_an_endless_value_is_not_written(ways):
    """
    It ends with a RecursionError.
    """
    endless: list[Any] = []
    endless.append(endless)

    with pytest.raises(RecursionError):
        ways.json_writer(ascii_only=True, nan=True)(endless)


@given(data=st.binary())
def test_bytes_come_back_from_base64(data):
    """
    In the form that everyone knows.
    """
    assert light.to_base64(data) == base64.b64encode(data).decode()
    assert light.from_base64(light.to_base64(data)) == data


@given(text=st.text(max_size=12) | st.text(alphabet="AQ=+/\n-_", max_size=8))
def test_only_what_is_written_is_read_as_base64(text):
    """
    Anything else is a ValueError, as strict as `base64` can be.
    """
    try:
        data = light.from_base64(text)
    except ValueError:
        return

    assert base64.b64encode(data).decode() == text


def test_descriptors_arrive_with_their_message():
    """
    They are the receiver's own, and an end that is closed says nothing more.
    """
    one, other = light.pair()
    reading, writing = os.pipe()

    light.send(one, b"with two", [reading, writing])
    light.send(one, b"with none")
    message, (got_reading, got_writing) = light.receive(other, 64, 4)
    os.write(got_writing, b"through")

    assert message == b"with two"
    assert os.read(reading, 10) == b"through"
    assert light.receive(other, 64, 4) == (b"with none", [])
    one.close()
    assert light.receive(other, 64, 4) == (b"", [])
    other.close()
    for fd in (reading, writing, got_reading, got_writing):
        os.close(fd)


def test_one_who_does_not_wait_is_told_that_nobody_takes_it():
    """
    A message to a receiver that is full is an OSError, and not a wait.
    """
    one, other = light.pair()

    def speak_on() -> None:
        while True:
            light.send(one, b"x" * 1000, wait=False)

    with pytest.raises(BlockingIOError):
        speak_on()

    one.close()
    other.close()


def test_a_descriptor_can_be_adopted():
    """
    The number alone is enough to go on with the other end.
    """
    one, other = light.pair()
    adopted = light.adopt(other.detach())

    light.send(one, b"hello")

    assert light.receive(adopted, 64, 1) == (b"hello", [])
    one.close()
    adopted.close()


def test_the_c_library_can_be_called():
    """
    With numbers, and with bytes, of which it gets a pointer.
    """
    assert light.call_c("atoi", b"12 rest") == 12
    assert light.call_c("getpid") == os.getpid()
    with pytest.raises(OSError, match="no_such_function"):
        light.call_c("no_such_function")


def test_a_structure_can_hold_a_pointer():
    """
    It leads to the bytes themselves.
    """
    text = b"a text that stays"
    (address,) = struct.unpack("P", light.pointer_to(text))

    assert ctypes.string_at(address, len(text)) == text
