"""Anthropic's models, through Anthropic's own SDK (`pip install reproof[anthropic]`)."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from ..conversation import Conversation, GeneratorError, Message, Reply, Tokens
from .retrying import Fault, Pause, fault_of, retried

__all__ = ["AnthropicGenerator"]

OVERLOADED = {"overloaded_error": 529, "rate_limit_error": 429, "api_error": 500}
"""What an error in the middle of a stream would have been as a status, whose place 200 has taken by then."""


class AnthropicGenerator:
    """Asks `model`, with `ANTHROPIC_API_KEY` unless a key is given.

    `seconds` is how long the endpoint may be silent, `max_tokens` how long a reply may be.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        max_tokens: int = 16_000,
        seconds: float = 120,
        options: dict[str, Any] | None = None,
        pause: Pause = asyncio.sleep,
    ) -> None:
        try:
            import anthropic  # noqa: F401  # an extra; said here, and not in the middle of a run
        except ImportError:
            raise GeneratorError("anthropic", "its SDK is not installed; pip install 'reproof[anthropic]'") from None
        self.name = f"anthropic:{model}"
        self._model, self._base_url, self._seconds, self._max_tokens = model, base_url, seconds, max_tokens
        self._api_key = api_key or os.environ.get("ANTHROPIC_API_KEY") or ("none" if base_url else None)
        if self._api_key is None:
            raise GeneratorError("anthropic", "no key; set ANTHROPIC_API_KEY")
        self._options, self._pause = options or {}, pause

    async def generate(self, conversation: Conversation) -> Reply:
        return await retried(lambda: self._ask(conversation.messages), self.name, self._pause)

    async def _ask(self, messages: tuple[Message, ...]) -> Reply:
        import anthropic

        client = anthropic.AsyncAnthropic(
            api_key=self._api_key, base_url=self._base_url, timeout=self._seconds, max_retries=0
        )
        try:
            async with client:
                return await self._stream(client, messages)
        except anthropic.APIStatusError as exc:
            hint = f"check the model ({self._model}), the key and base_url."
            status = OVERLOADED.get(str(exc.type), 500) if exc.status_code == 200 else exc.status_code
            raise fault_of(self.name, status, exc.message, exc.response.headers, hint) from exc
        except anthropic.APITimeoutError as exc:
            raise Fault(f"the endpoint was silent for {self._seconds:g} seconds.") from exc
        except anthropic.APIConnectionError as exc:
            raise Fault(f"the connection to {client.base_url} failed: {exc.__cause__ or exc}.") from exc
        except (Fault, GeneratorError):
            raise
        except Exception as exc:  # errors of its HTTP library and of JSON come through the SDK's stream as they are
            raise Fault(
                f"the endpoint's answer was cut or is not of the protocol: {type(exc).__name__}: {exc}."
            ) from exc

    async def _stream(self, client: Any, messages: tuple[Message, ...]) -> Reply:
        parts: list[str] = []
        prompt = completion = 0
        finished = False
        stream = await client.messages.create(
            model=self._model,
            max_tokens=self._max_tokens,
            system="\n\n".join(message.content for message in messages if message.role == "system"),
            messages=[
                {"role": message.role, "content": message.content} for message in messages if message.role != "system"
            ],
            stream=True,
            **self._options,
        )
        async for event in stream:
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
