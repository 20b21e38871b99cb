"""The text in a field of a record: words, the messages of a chat, or several fields one below the other."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from attn_cli.sources.corpora.document import BadRecordError, TextField
from attn_cli.text import excerpt, listed

# What a field is called that nobody named, in the order in which they are looked for.
USUAL_FIELDS = ("text", "messages")
_BETWEEN = "\n\n"
# Names that a message's role and content go by, in files of chats.
_MESSAGE_KEYS = (("role", "content"), ("from", "value"))


class FieldText(NamedTuple):
    """The text of a record's fields, and the characters of each field or message role; no `fields` for one alone."""

    text: str
    fields: tuple[TextField, ...] = ()


def text_of_record(record: Mapping[str, Any], fields: Sequence[str]) -> FieldText:
    """The text of the `fields` of a record; with none given, that of "text", else of "messages"."""
    names = fields or [name for name in USUAL_FIELDS if name in record][:1]
    if not names:
        raise BadRecordError("no such field", f"no field {USUAL_FIELDS[0]!r} among {listed(map(str, record))}")
    values = [(name, _value(record, name)) for name in names]
    if len(values) == 1:
        return _single(*values[0])
    return joined([(name, _single(name, value).text) for name, value in values])


def joined(parts: Sequence[tuple[str, str]]) -> FieldText:
    """Texts joined by blank lines, and for each which characters it has and its name."""
    places, at = [], 0
    for name, text in parts:
        places.append(TextField(at, at + len(text), name))
        at += len(text) + len(_BETWEEN)
    return FieldText(_BETWEEN.join(text for _, text in parts), tuple(places))


def _value(record: Mapping[str, Any], name: str) -> Any:
    if name in record:
        return record[name]
    value: Any = record
    for step in name.split("."):
        if not isinstance(value, Mapping) or step not in value:
            raise BadRecordError("no such field", f"no field {excerpt(name, 60)!r} among {listed(map(str, record))}")
        value = value[step]
    return value


def _single(name: str, value: Any) -> FieldText:
    if isinstance(value, str):
        return FieldText(_valid(value))
    if isinstance(value, bytes):
        return FieldText(decoded(value))
    if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        return joined([_message(item, name) for item in value])
    raise BadRecordError("not text", f"the field {excerpt(name, 60)!r} holds {_noun(value)}")


def decoded(content: bytes) -> str:
    """The text of bytes in UTF-8; BadRecordError for other bytes."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRecordError("not UTF-8", f"byte {error.start} is not UTF-8") from None


def _valid(text: str) -> str:
    r"""The text; BadRecordError for half a character, such as JSON's "\ud800", which no tokenizer reads."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadRecordError("not UTF-8", f"character {error.start} is half a character") from None
    return text


def _message(message: Mapping[str, Any], name: str) -> tuple[str, str]:
    for role, content in _MESSAGE_KEYS:
        if isinstance(message.get(role), str) and content in message:
            value = message[content]
            if isinstance(value, list):
                value = "".join(piece["text"] for piece in value if isinstance(piece, Mapping) and _is_text(piece))
            if isinstance(value, str):
                return message[role], _valid(value)
    raise BadRecordError("not text", f"the field {excerpt(name, 60)!r} holds messages without role and content")


def _is_text(piece: Mapping[str, Any]) -> bool:
    return isinstance(piece.get("text"), str)


def _noun(value: Any) -> str:
    names = {type(None): "nothing", bool: "true or false", int: "a number", float: "a number", dict: "an object"}
    return names.get(type(value), "a list" if isinstance(value, list) else type(value).__name__)
