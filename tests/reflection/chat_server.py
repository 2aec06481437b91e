"""A small endpoint that speaks the protocols of OpenAI's chat completions and of Anthropic's messages.

It answers as it was told beforehand, one behaviour per request, and remembers what it was asked.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["Answer", "Behaviour", "ChatServer", "Cut", "Garbage", "MidStreamError", "Silence", "Status", "chat_server"]


@dataclass(frozen=True)
class Answer:
    text: str
    counted: bool = True
    """Whether the tokens are counted for the caller."""


@dataclass(frozen=True)
class Status:
    code: int
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Cut:
    """The connection ends in the middle of the answer; politely, or as a network does it."""

    polite: bool = False


@dataclass(frozen=True)
class Garbage:
    body: bytes = b"<html>502 but with status 200</html>"
    kind: str = "text/html"


@dataclass(frozen=True)
class Silence:
    """The request is taken, and nothing comes until the caller gives up."""


@dataclass(frozen=True)
class MidStreamError:
    """Anthropic's way to say that it is overloaded once the status has been sent."""


Behaviour = Answer | Status | Cut | Garbage | Silence | MidStreamError


class ChatServer:
    def __init__(self, behaviours: list[Behaviour]) -> None:
        self.behaviours = list(behaviours)
        self.requests: list[dict[str, Any]] = []
        self.asked = threading.Event()
        self.released = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def openai(self) -> str:
        return f"{self.root}/v1"

    def start(self) -> None:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def chat_server(*behaviours: Behaviour) -> Iterator[ChatServer]:
    server = ChatServer(list(behaviours))
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _handler(server: ChatServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments: Any) -> None:
            """Tests print nothing."""

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            server.requests.append({"path": self.path, "headers": self.headers, "body": body})
            server.asked.set()
            self._behave(server.behaviours.pop(0))

        def _behave(self, behaviour: Behaviour) -> None:
            if isinstance(behaviour, Status):
                self._whole(behaviour.code, b'{"error": {"message": "told to"}}', "application/json", behaviour.headers)
            elif isinstance(behaviour, Garbage):
                self._whole(200, behaviour.body, behaviour.kind, {})
            elif isinstance(behaviour, Silence):
                server.released.wait()
                self.close_connection = True
            else:
                self._stream(behaviour)

        def _whole(self, code: int, body: bytes, kind: str, headers: dict[str, str]) -> None:
            self.send_response(code)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def _stream(self, behaviour: Answer | Cut | MidStreamError) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            text = behaviour.text if isinstance(behaviour, Answer) else "```python\ndef ad"
            events = list((_openai if "chat/completions" in self.path else _anthropic)(text, behaviour))
            for event in events:
                self._chunk(event)
            if isinstance(behaviour, Cut) and not behaviour.polite:
                self.close_connection = True
                return
            self._chunk("")

        def _chunk(self, text: str) -> None:
            data = text.encode()
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()

    return Handler


def _pieces(text: str) -> list[str]:
    return [text[index : index + 7] for index in range(0, len(text), 7)]


def _openai(text: str, behaviour: Behaviour) -> Iterator[str]:
    def event(**more: Any) -> str:
        chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", **more}
        return f"data: {json.dumps(chunk)}\n\n"

    for piece in _pieces(text):
        yield event(choices=[{"index": 0, "delta": {"content": piece}, "finish_reason": None}])
    if not isinstance(behaviour, Answer):
        return
    yield event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])
    if behaviour.counted:
        yield event(choices=[], usage={"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18})
    yield "data: [DONE]\n\n"


def _anthropic(text: str, behaviour: Behaviour) -> Iterator[str]:
    def event(kind: str, **more: Any) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n"

    usage = {"input_tokens": 11, "output_tokens": 1}
    message = {"id": "x", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    yield event("message_start", message=message)
    yield event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    for piece in _pieces(text):
        yield event("content_block_delta", index=0, delta={"type": "text_delta", "text": piece})
    if isinstance(behaviour, MidStreamError):
        yield event("error", error={"type": "overloaded_error", "message": "Overloaded"})
    if not isinstance(behaviour, Answer):
        return
    yield event("content_block_stop", index=0)
    yield event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 7})
    yield event("message_stop")
