"""Generate, verify, feed the failure back, try again: from a failing report to passing code."""

from .conversation import Conversation, Exhausted, Generator, GeneratorError, Message, Reply, Tokens, Turn
from .disclosure import Disclosure
from .feedback import feedback
from .generators import AnthropicGenerator, CommandGenerator, FunctionGenerator, OpenAIGenerator
from .loop import code_with_reflection, code_with_reflection_sync
from .repair import RepairGenerator
from .replies import Unreadable, read_reply
from .transcript import Attempt, Result, read_transcript

__all__ = [
    "AnthropicGenerator",
    "Attempt",
    "CommandGenerator",
    "Conversation",
    "Disclosure",
    "Exhausted",
    "FunctionGenerator",
    "Generator",
    "GeneratorError",
    "Message",
    "OpenAIGenerator",
    "RepairGenerator",
    "Reply",
    "Result",
    "Tokens",
    "Turn",
    "Unreadable",
    "code_with_reflection",
    "code_with_reflection_sync",
    "feedback",
    "read_reply",
    "read_transcript",
]
