"""What generators behind an HTTP endpoint have in common: a key, an SDK that is an extra, and trouble that may pass.

The SDKs of OpenAI and of Anthropic are made by one tool, and so have the same errors under the same names.
"""

from __future__ import annotations

import asyncio
import importlib
import os
from typing import Any, ClassVar

from ..conversation import Conversation, GeneratorError, Message, Reply
from .retrying import Fault, Pause, fault_of, retried

__all__ = ["EndpointGenerator"]

STATUS_OF = {"overloaded_error": 529, "rate_limit_error": 429, "api_error": 500}
"""What an error in the middle of a stream would have been as a status, whose place 200 has taken by then."""


class EndpointGenerator:
    """Asks `model` at `base_url`, with a key from the environment unless one is given.

    An endpoint of your own that wants no key needs none. `seconds` is how long the endpoint may be silent,
    `options` go into the request.
    """

    sdk: ClassVar[str]
    """Its module, and the extra of ours that brings it."""
    client: ClassVar[str]

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
            importlib.import_module(self.sdk)  # said here, and not in the middle of a run
        except ImportError:
            raise GeneratorError(self.sdk, f"its SDK is not installed; pip install 'reproof[{self.sdk}]'") from None
        variable = f"{self.sdk.upper()}_API_KEY"
        is_own = base_url or os.environ.get(f"{self.sdk.upper()}_BASE_URL")
        key = api_key or os.environ.get(variable) or ("none" if is_own else None)
        if key is None:
            raise GeneratorError(self.sdk, f"no key; set {variable}, or name an endpoint that needs none (base_url)")
        self.name = f"{self.sdk}:{model}"
        self._model, self._base_url, self._key, self._seconds = model, base_url, key, seconds
        self._options, self._pause = options or {}, pause

    async def generate(self, conversation: Conversation) -> Reply:
        return await retried(lambda: self._ask(conversation.messages), self.name, self._pause)

    async def _ask(self, messages: tuple[Message, ...]) -> Reply:
        sdk = importlib.import_module(self.sdk)
        client = getattr(sdk, self.client)(
            api_key=self._key, base_url=self._base_url, timeout=self._seconds, max_retries=0
        )
        try:
            async with client:
                return await self._stream(client, messages)
        except (Fault, GeneratorError):
            raise
        except sdk.APIStatusError as exc:
            hint = f"check the model ({self._model}), the key and base_url."
            status = STATUS_OF.get(str(exc.type), 500) if exc.status_code == 200 else exc.status_code
            raise fault_of(self.name, status, exc.message, exc.response.headers, hint) from exc
        except sdk.APITimeoutError as exc:
            raise Fault(f"the endpoint was silent for {self._seconds:g} seconds.") from exc
        except sdk.APIConnectionError as exc:
            raise Fault(f"the connection to {client.base_url} failed or was cut: {exc.__cause__ or exc}.") from exc
        except Exception as exc:
            # Errors of their HTTP library and of JSON come through the SDKs' streams as they are, and what is
            # no chunk shows only when a field of it is read.
            raise Fault(
                f"the endpoint's answer was cut or is not of the protocol: {type(exc).__name__}: {exc}."
            ) from exc

    async def _stream(self, client: Any, messages: tuple[Message, ...]) -> Reply:
        """The whole answer, or a `Fault` if it ends before it is complete."""
        raise NotImplementedError
