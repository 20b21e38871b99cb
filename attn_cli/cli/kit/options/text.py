"""The options that say what is read: a text, a file, an image, audio, or a message of a chat."""

from dataclasses import dataclass

from attn_cli.cli.kit.options import named as o
from attn_cli.errors import InputError
from attn_cli.sources import Reading
from attn_cli.sources.files.paths import expanded
from attn_cli.text import excerpt

ChatMessages = tuple[dict[str, str], ...]
_HINT = 'it looks like [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "..."}]'


@dataclass(frozen=True, repr=False, eq=False)
class TextOptions:
    """Options for the input: a text, a file, an image, audio, or a message of a chat."""

    text: o.Text = None
    file: o.File = None
    lines: o.Lines = False
    pair: o.Pair = None
    decoder_text: o.DecoderText = None
    generate: o.Generate = None
    inputs: o.Inputs = None
    image: o.Image = None
    audio: o.Audio = None
    chat: o.Chat = False
    messages: o.Messages = None

    @property
    def without_text(self) -> bool:
        """True if no text is given and none is needed, because an image, audio, arrays or messages are read."""
        instead = (self.inputs, self.image or None, self.audio or None, self.messages)
        return any(x is not None for x in instead) and (self.text, self.file, self.lines) == (None, None, False)

    @property
    def in_chat(self) -> bool:
        """True if the text is a message of a chat; --messages implies it."""
        return self.chat or self.messages is not None

    def chat_before(self) -> ChatMessages | None:
        """The messages of a chat that come before the text, from --messages; None if it is no chat."""
        if not self.in_chat:
            return None
        if self.pair is not None or self.inputs is not None:
            raise InputError("a chat and --pair or --inputs at once", "a chat is one text")
        return () if self.messages is None else _messages_of(self.messages)

    def messages_with(self, text: str) -> list[tuple[str, str]] | None:
        """The (role, content) of all messages of a chat, the last `text` as the user's; None if it is no chat."""
        before = self.chat_before()
        if before is None:
            return None
        messages = [(message["role"], message["content"]) for message in before]
        return [*messages, ("user", text)] if text else messages

    def reading(self) -> Reading:
        """What a model reads beside the text (images, audio, chat ...), and how many tokens it writes."""
        image, audio = self._media()
        return {
            "decoder_text": self.decoder_text,
            "generate": self.generate,
            "inputs": self.inputs,
            "image": image,
            "audio": audio,
            "chat": self.chat_before(),
        }

    def _media(self) -> tuple[str | None, str | None]:
        """The files of --image and --audio. InputError beside options that exclude them, such as --inputs."""
        text = (self.text, self.file, self.lines, self.pair) != (None, None, False, None)
        image, audio = o.once(self.image, "--image"), o.once(self.audio, "--audio")
        check_alone(self.inputs, text=text, media=(image, audio) != (None, None))
        if self.generate is not None and (self.inputs, self.pair) != (None, None):
            raise InputError(
                "--generate and --inputs or --pair at once", "a model goes on with one text, or one medium"
            )
        return image, audio


def check_alone(inputs: str | None, *, text: bool, media: bool) -> None:
    """Raise InputError where something is given beside --inputs, a file that holds all that is read."""
    if inputs is not None and text:
        raise InputError("a text and --inputs at once", "give one of them")
    if inputs is not None and media:
        raise InputError("--inputs and --image or --audio at once", "give one of them")


def _messages_of(file: str) -> ChatMessages:
    """The messages of a JSON file: a list, or an object with the list under "messages"."""
    from attn_cli.sources.files.json_document import read_json_document  # here: few texts come with messages

    content = read_json_document(expanded(file), excerpt(file), InputError, _HINT)
    messages = content.get("messages") if isinstance(content, dict) else content
    if not isinstance(messages, list) or not messages:
        raise InputError(f"{file} holds no list of messages", _HINT)
    for number, message in enumerate(messages):
        if not isinstance(message, dict) or not all(isinstance(message.get(x), str) for x in ("role", "content")):
            raise InputError(f"{file}: message {number} has no role and content in words", _HINT)
        for name in ("role", "content"):
            lone = next((at for at, letter in enumerate(message[name]) if "\ud800" <= letter <= "\udfff"), None)
            if lone is not None:
                words = f"{file}: the {name} of message {number} has half of a surrogate pair at character {lone}"
                raise InputError(words, "write the character itself, or both halves: \\ud83d\\ude00")
    return tuple({"role": message["role"], "content": message["content"]} for message in messages)
