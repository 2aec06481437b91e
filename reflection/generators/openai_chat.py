"""Models behind an OpenAI-compatible chat endpoint, through OpenAI's own SDK (`pip install reproof[openai]`)."""

from __future__ import annotations

from typing import Any

from ..conversation import Message, Reply, Tokens
from .endpoints import EndpointGenerator
from .retrying import Fault, estimated

__all__ = ["OpenAIGenerator"]


class OpenAIGenerator(EndpointGenerator):
    """Asks `model` at `base_url` (OpenAI's own, or `OPENAI_BASE_URL`), with `OPENAI_API_KEY` unless a key is given.

    An endpoint of your own that wants no key needs none. `seconds` is how long the endpoint may be silent,
    `options` go into the request.
    """

    sdk, client = "openai", "AsyncOpenAI"

    async def _stream(self, client: Any, messages: tuple[Message, ...]) -> Reply:
        parts: list[str] = []
        tokens: Tokens | None = None
        finished = False
        stream = await client.chat.completions.create(
            model=self._model,
            messages=[{"role": message.role, "content": message.content} for message in messages],
            stream=True,
            stream_options={"include_usage": True},
            **self._options,
        )
        async for chunk in stream:
            for choice in chunk.choices:
                parts.append(choice.delta.content or "")
                finished = finished or choice.finish_reason is not None
            if chunk.usage is not None:
                tokens = Tokens(prompt=chunk.usage.prompt_tokens, completion=chunk.usage.completion_tokens)
        if not finished:
            raise Fault("the endpoint's answer ended before it was complete.")
        text = "".join(parts)
        return Reply(text=text, tokens=tokens or estimated(messages, text))
