"""Ways to get candidates: one file each. The protocol is in `reflection/conversation.py`."""

from .anthropic_messages import AnthropicGenerator
from .command import CommandGenerator
from .functions import FunctionGenerator, as_generator
from .openai_chat import OpenAIGenerator

__all__ = ["AnthropicGenerator", "CommandGenerator", "FunctionGenerator", "OpenAIGenerator", "as_generator"]
