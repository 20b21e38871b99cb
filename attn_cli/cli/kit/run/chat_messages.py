"""The messages of a chat: --system, and a file of them."""

from attn_cli.errors import InputError
from attn_cli.sources.files.json_document import read_json_document
from attn_cli.sources.files.paths import expanded
from attn_cli.text import excerpt

ChatMessages = tuple[dict[str, str], ...]
_HINT = 'it looks like [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "..."}]'


def messages_before(system: str | None, file: str | None) -> ChatMessages:
    """The messages before the user's text: the system message, then the file's. InputError for a file without any."""
    first = () if system is None else ({"role": "system", "content": system},)
    return first if file is None else (*first, *_read(file))


def _read(file: str) -> ChatMessages:
    """The messages of a JSON file: a list, or an object with the list under "messages"."""
    content = read_json_document(expanded(file), excerpt(file), InputError, _HINT)
    messages = content.get("messages") if isinstance(content, dict) else content
    if not isinstance(messages, list) or not messages:
        raise InputError(f"{file} holds no list of messages", _HINT)
    for number, message in enumerate(messages):
        if not isinstance(message, dict) or not all(isinstance(message.get(x), str) for x in ("role", "content")):
            raise InputError(f"{file}: message {number} has no role and content in words", _HINT)
    return tuple({"role": message["role"], "content": message["content"]} for message in messages)
