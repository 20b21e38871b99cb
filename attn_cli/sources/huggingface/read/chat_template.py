"""Messages of a chat as the one text that a model reads: rendered by the template that comes with its tokenizer."""

from collections.abc import Mapping, Sequence

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from attn_cli.errors import InputError


def rendered(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Mapping[str, str]], text: str, name: str) -> str:
    """`messages`, then `text` as the user's, if there is any, up to where the model would answer.

    Raises InputError for a model without a template, and for messages that its template refuses.
    """
    if not tokenizer.chat_template:
        raise InputError(f"{name} has no chat template", "leave out --chat; the text is then read as it is")
    asked = [dict(message) for message in messages]
    if text:
        asked.append({"role": "user", "content": text})
    if not asked:
        raise InputError("the text is empty", "give a message, or --messages FILE")
    answered = asked[-1]["role"] == "assistant"
    try:
        shown = tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=not answered)
    except (TemplateError, ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"{name}: the chat template refuses these messages: {str(error).splitlines()[0]}",
            "some know no system message, or want user and assistant in turn",
        ) from error
    return str(shown)
