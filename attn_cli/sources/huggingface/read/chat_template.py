"""Messages of a chat as the one text that a model reads, by the template that comes with its tokenizer."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from transformers import PreTrainedTokenizerBase

from attn_cli.errors import InputError, reason
from attn_cli.text import listed


def chat_text(
    tokenizer: PreTrainedTokenizerBase, chat: Mapping[str, Any], text: str, name: str
) -> tuple[str, tuple[str, ...]]:
    """The text that the template makes of a `chat` and a user's `text`, up to the model's answer; notes."""
    if not tokenizer.chat_template:
        raise no_template(name)
    conversation = [*chat["messages"], *([{"role": "user", "content": text}] if text else [])]
    if not conversation:
        raise InputError("the text is empty", "give a message, or -F messages.json")
    hint = "some know no system message, or want user and assistant in turn"
    return rendered(tokenizer, conversation, name, hint, chat)


def no_template(name: str) -> InputError:
    """The error for a chat with a model that has no template."""
    return InputError(f"{name} has no chat template", "leave out --chat to read the text as it is")


def rendered(
    reader: Any, conversation: Sequence[Mapping[str, Any]], name: str, hint: str, chat: Mapping[str, Any]
) -> tuple[str, tuple[str, ...]]:
    """The text that a template makes of a conversation, up to the model's answer or with it; notes on losses."""
    given = {"add_generation_prompt": conversation[-1]["role"] != "assistant", **chat}
    given.pop("messages", None)
    contents = [in_parts(m.get("content") or ()) for m in conversation if m["role"] in ("user", "system")]
    written = [str(part.get("text") or "").strip() for parts in contents for part in parts if isinstance(part, dict)]

    def tried(messages: Sequence[Mapping[str, Any]]) -> str | Exception:
        try:
            return str(reader.apply_chat_template(messages, tokenize=False, **given))
        except MemoryError:
            raise
        except Exception as error:  # of any type: a template is a program that came with the model
            return error

    def is_whole(text: str | Exception) -> bool:
        return isinstance(text, str) and all(part in text for part in written)

    text = tried(conversation)
    if not is_whole(text):
        of_parts = tried([{**m, "content": in_parts(m["content"])} if m.get("content") else m for m in conversation])
        text = of_parts if is_whole(of_parts) else text
    if isinstance(text, Exception):
        line = f"{name}: the chat template refuses these messages: {reason(text)}"
        raise InputError(line, hint) from text
    # letters alone: a template may write quotes and line ends in its own way
    words = dict.fromkeys(re.findall(r"\w+", " ".join(written)))
    lost = [word for word in words if word.lower() not in text.lower()]
    return text, (f"the chat template leaves out words of the messages: {listed(lost, 5)}",) if lost else ()


def in_parts(content: Any) -> list[dict[str, Any]]:
    """The content of a message as a list of its parts, in which a text is one."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
