"""Messages of a chat as the one text that a model reads, by the template that comes with its tokenizer."""

from collections.abc import Mapping, Sequence
from typing import Any

from transformers import PreTrainedTokenizerBase

from attn_cli.errors import InputError, first_line


def chat_text(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Mapping[str, str]], text: str, name: str) -> str:
    """The text that the chat template makes of `messages` and a user's `text`, up to where the model would answer."""
    if not tokenizer.chat_template:
        raise InputError(f"{name} has no chat template", "leave out --chat; the text is then read as it is")
    conversation = [dict(message) for message in messages]
    if text:
        conversation.append({"role": "user", "content": text})
    if not conversation:
        raise InputError("the text is empty", "give a message, or --messages FILE")
    hint = "some know no system message, or want user and assistant in turn"
    return rendered(tokenizer, conversation, name, hint, answers=conversation[-1]["role"] == "assistant")


def rendered(
    reader: Any, conversation: Sequence[Mapping[str, Any]], name: str, hint: str, *, answers: bool = False
) -> str:
    """The text that the chat template of a tokenizer or processor makes of a conversation."""
    try:
        return str(reader.apply_chat_template(conversation, tokenize=False, add_generation_prompt=not answers))
    except MemoryError:
        raise
    except Exception as error:  # of any type: a template is a program that came with the model
        line = f"{name}: the chat template refuses these messages: {first_line(error)}"
        raise InputError(line, hint) from error
