"""Models behind an OpenAI-compatible chat endpoint, through OpenAI's own SDK (`pip install reproof[openai]`)."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from ..conversation import Conversation, GeneratorError, Message, Reply, Tokens
from .retrying import Fault, Pause, estimated, fault_of, retried

__all__ = ["OpenAIGenerator"]


class OpenAIGenerator:
    """Asks `model` at `base_url` (OpenAI's own, or `OPENAI_BASE_URL`), with `OPENAI_API_KEY` unless a key is given.

    An endpoint of your own that wants no key needs none. `seconds` is how long the endpoint may be silent.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        seconds: float = 120,
        options: dict[str, Any] | None = None,
        pause: Pause = asyncio.sleep,
    ) -> None:
        try:
            import openai  # noqa: F401  # an extra; said here, and not in the middle of a run
        except ImportError:
            raise GeneratorError("openai", "its SDK is not installed; pip install 'reproof[openai]'") from None
        self.name = f"openai:{model}"
        self._model, self._base_url, self._seconds = model, base_url, seconds
        self._api_key = api_key or os.environ.get("OPENAI_API_KEY") or ("none" if base_url else None)
        if self._api_key is None and not os.environ.get("OPENAI_BASE_URL"):
            raise GeneratorError("openai", "no key; set OPENAI_API_KEY, or name an endpoint that needs none (base_url)")
        self._options, self._pause = options or {}, pause

    async def generate(self, conversation: Conversation) -> Reply:
        return await retried(lambda: self._ask(conversation.messages), self.name, self._pause)

    async def _ask(self, messages: tuple[Message, ...]) -> Reply:
        import openai

        client = openai.AsyncOpenAI(
            api_key=self._api_key or "none", base_url=self._base_url, timeout=self._seconds, max_retries=0
        )
        try:
            async with client:
                return await self._stream(client, messages)
        except openai.APIStatusError as exc:
            hint = f"check the model ({self._model}), the key and base_url."
            raise fault_of(self.name, exc.status_code, exc.message, exc.response.headers, hint) from exc
        except openai.APITimeoutError as exc:
            raise Fault(f"the endpoint was silent for {self._seconds:g} seconds.") from exc
        except openai.APIConnectionError as exc:
            raise Fault(f"the connection to {client.base_url} failed or was cut: {exc.__cause__ or exc}.") from exc
        except (openai.APIError, ValueError, TypeError, AttributeError) as exc:
            # Streamed objects are not validated by the SDK: what is no chunk shows when a field of it is read.
            raise Fault(f"the endpoint's answer is not of the chat protocol: {exc}.") from exc

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
