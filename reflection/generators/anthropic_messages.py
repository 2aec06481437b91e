"""Anthropic's models, through Anthropic's own SDK (`pip install reproof[anthropic]`)."""

from __future__ import annotations

from typing import Any

from ..conversation import Message, Reply, Tokens
from .endpoints import EndpointGenerator
from .retrying import Fault

__all__ = ["AnthropicGenerator"]

LONGEST_REPLY = 16_000
"""In tokens; the protocol wants to be told."""


class AnthropicGenerator(EndpointGenerator):
    """Asks `model`, with `ANTHROPIC_API_KEY` unless a key is given.

    `seconds` is how long the endpoint may be silent, `options` go into the request: `{"max_tokens": 4_000}`
    makes replies shorter.
    """

    sdk, client = "anthropic", "AsyncAnthropic"

    async def _stream(self, client: Any, messages: tuple[Message, ...]) -> Reply:
        parts: list[str] = []
        prompt = completion = 0
        finished = False
        request = {
            "model": self._model,
            "max_tokens": LONGEST_REPLY,
            "system": "\n\n".join(message.content for message in messages if message.role == "system"),
            "messages": [
                {"role": message.role, "content": message.content} for message in messages if message.role != "system"
            ],
        }
        async for event in await client.messages.create(**{**request, **self._options}, stream=True):
            if event.type == "message_start":
                prompt = _read(event.message.usage)
            elif event.type == "content_block_delta" and event.delta.type == "text_delta":
                parts.append(event.delta.text)
            elif event.type == "message_delta":
                completion = event.usage.output_tokens
            elif event.type == "message_stop":
                finished = True
        if not finished:
            raise Fault("the endpoint's answer ended before it was complete.")
        return Reply(text="".join(parts), tokens=Tokens(prompt=prompt, completion=completion))


def _read(usage: Any) -> int:
    """All that the model read, from its cache as well."""
    cached = (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
    return int(usage.input_tokens) + cached
