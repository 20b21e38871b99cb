"""Messages of a chat as the one text that a model reads, by the template that comes with its tokenizer."""

from collections.abc import Mapping, Sequence

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from attn_cli.errors import InputError


def chat_text(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Mapping[str, str]], text: str, name: str) -> str:
    """`messages`, then `text` as the user's if it isn't empty, up to where the model would answer.

    name  the model's, for messages

    Raises InputError for a model without a template, and for messages that its template refuses.
    """
    if not tokenizer.chat_template:
        raise InputError(f"{name} has no chat template", "leave out --chat; the text is then read as it is")
    conversation = [dict(message) for message in messages]
    if text:
        conversation.append({"role": "user", "content": text})
    if not conversation:
        raise InputError("the text is empty", "give a message, or --messages FILE")
    ends_with_answer = conversation[-1]["role"] == "assistant"
    try:
        chat = tokenizer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=not ends_with_answer)
    except (TemplateError, ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"{name}: the chat template refuses these messages: {str(error).splitlines()[0]}",
            "some know no system message, or want user and assistant in turn",
        ) from error
    return str(chat)
