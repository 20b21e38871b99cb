"""The options that say what is read: a text, a file, an image, audio, or a message of a chat."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.shell.signature import argument
from attn_cli.errors import InputError
from attn_cli.sources import Reading
from attn_cli.sources.files.paths import expanded, leads_somewhere, nested, read_json
from attn_cli.text import excerpt

if TYPE_CHECKING:
    from attn_cli.summaries.parts.text_parts import MessageText

_MESSAGES = (".json", ".jsonl")
_HINT = 'it looks like [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "..."}]'


@dataclass(frozen=True, repr=False, eq=False)
class TextOptions:
    """Options for the input: a text, a file, an image, audio, or a message of a chat."""

    text: str | None = argument(
        "TEXT", "Read this text. - or nothing reads standard input. Put -- before a text that starts with -."
    )
    file: str | None = o.FILE
    pair: str | None = o.PAIR
    generate: int | None = o.reading(
        "--generate N", "Generate up to N tokens first (greedy), then analyse prompt and generation together.", min=1
    )
    image: list[str] | None = o.IMAGE
    audio: list[str] | None = o.AUDIO
    chat: bool = o.reading(
        "--chat", "Put the text into the chat template as the user's message. A .json file holds all messages."
    )
    arg: list[str] | None = o.reading(
        "--arg NAME=VALUE|FILE", "Set an argument of the chat template (a JSON file sets several)."
    )
    lines = False
    inputs: ClassVar[str | None] = None
    messages: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        """Tell files of messages, or of all model inputs, from texts: `messages` and `inputs` are their paths."""
        text, file = (self.text or "").lower(), (self.file or "").lower()
        taken: dict[str, str | None] = {}
        if self.chat and file.endswith(_MESSAGES):
            taken = {"messages": self.file, "file": None}
        elif self.chat and text.endswith(_MESSAGES) and leads_somewhere(str(expanded(self.text or ""))):
            taken = {"messages": self.text, "text": None}
        elif file.endswith((".npz", ".safetensors")):  # all that a model reads, as arrays
            taken = {"inputs": self.file, "file": None}
        for name, value in taken.items():
            object.__setattr__(self, name, value)

    @property
    def without_text(self) -> bool:
        """True if no text is given and none is needed, because an image, audio, arrays or messages are read."""
        instead = (self.inputs, self.image or None, self.audio or None, self.messages)
        return any(x is not None for x in instead) and (self.text, self.file, self.lines) == (None, None, False)

    @cached_property
    def _arguments(self) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for each in self.arg or ():
            name, equals, value = each.partition("=")
            if not equals and name.lower().endswith(".json"):
                several = _json_of(name, 'it looks like {"tools": [...], "enable_thinking": false}')
                if not isinstance(several, dict):
                    raise InputError(f"{name} holds no JSON object", "a name and a value for each argument")
            elif not equals or name == "messages":
                raise InputError(f"--arg {each} sets nothing", "such as enable_thinking=false")
            else:
                several = {name: value}
                with suppress(ValueError):
                    several = {name: json.loads(value.lower() if value in ("True", "False") else value)}
            _check_halves(several, f"--arg {name}")
            given |= several
        return given

    @cached_property
    def chat_before(self) -> dict[str, Any] | None:
        """The messages of a chat that come before the text, and arguments of its template; None if it is no chat."""
        if not self.chat:
            for other in self._arguments:
                raise InputError(f"--arg {other} is an argument of a chat template, and no chat", "add --chat")
            return None
        if self.pair is not None or self.inputs is not None:
            raise InputError("a chat and --pair or arrays at once", "a chat is one text")
        return self._arguments | ({"messages": []} if self.messages is None else _chat_of(self.messages))

    @property
    def notes(self) -> list[str]:
        """A note on a file that is read as a text and holds the messages of a chat."""
        with suppress(InputError):
            if not (self.chat or self.lines) and self.file and self.file.lower().endswith(_MESSAGES):
                _chat_of(self.file)
                return [f"{excerpt(self.file)} looks like a chat: --chat {excerpt(self.file)} reads it"]
        return []

    def messages_with(self, text: str) -> "list[MessageText] | None":
        """All messages of a chat, the last `text` as the user's; None if it is no chat."""
        before = self.chat_before
        if before is None:
            return None
        from attn_cli.summaries.parts.text_parts import MessageText  # here: few texts are chats

        messages = [MessageText(message["role"], _content(message), _calls(message)) for message in before["messages"]]
        return [*messages, MessageText("user", (text,))] if text else messages

    def reading(self) -> Reading:
        """What a model reads beside the text (images, audio, chat ...), and how many tokens it writes."""
        audio = self.audio or []
        if len(audio) > 1:
            reason = f"--audio is given {len(audio)} times, and one file is read at a time"
            raise InputError(reason, "leave one of them")
        if self.inputs and (self.text, self.file, self.lines, self.pair) != (None, None, False, None):
            raise InputError(f"a text and the arrays of {self.inputs} at once", "give one of them")
        if self.inputs and (self.image or audio):
            raise InputError(f"the arrays of {self.inputs} and --image or --audio at once", "give one of them")
        return {
            "generate": self.generate,
            "inputs": self.inputs,
            "image": self.image or None,
            "audio": next(iter(audio), None),
            "chat": self.chat_before,
        }


def _chat_of(file: str) -> dict[str, Any]:
    """The messages of a file with its tools and documents: a list, an object with "messages", or .jsonl lines."""
    content = _json_of(file, _HINT)
    beside = content if isinstance(content, dict) else {}
    messages = beside.get("messages") if beside else content
    if not isinstance(messages, list) or not messages:
        raise InputError(f"{file} holds no list of messages", _HINT)
    for number, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise InputError(f"{file}: message {number} has no role", _HINT)
        calls = any(isinstance(value, list | dict) for value in message.values())
        if not isinstance(message.get("content", [] if calls else 0), str | list | None):
            raise InputError(f"{file}: message {number} has no content in words", _HINT)
        _check_halves(message, file, f" of message {number}")
    arguments = {name: beside[name] for name in ("tools", "documents") if beside.get(name) is not None}
    _check_halves(arguments, file)
    return {**arguments, "messages": messages}


def _content(message: Mapping[str, Any]) -> tuple[str, ...]:
    content = message.get("content") or ()
    parts = (content,) if isinstance(content, str) else content
    return tuple(part.get("text") or "" if isinstance(part, dict) else str(part) for part in parts)


def _calls(message: Mapping[str, Any]) -> tuple[str, ...]:
    calls = message.get("tool_calls") or ()
    functions = [call.get("function") or call for call in calls if isinstance(call, dict)]
    return tuple(
        words
        for each in functions
        for _, words in nested([each.get("name"), each.get("arguments")], "")
        if isinstance(words, str)
    )


def _json_of(file: str, hint: str) -> Any:
    return read_json(expanded(file), excerpt(file), InputError, hint)


def _check_halves(value: Any, source: str, of: str = "") -> None:
    for place, words in nested(value, ""):
        letters = words if isinstance(words, str) else ""
        lone = next((at for at, letter in enumerate(letters) if "\ud800" <= letter <= "\udfff"), None)
        if lone is not None:
            line = f"{source}: {place.lstrip('.') or 'the text'}{of} has half of a surrogate pair at character {lone}"
            raise InputError(line, "write the character itself, or both halves: \\ud83d\\ude00")
