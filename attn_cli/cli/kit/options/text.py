"""The options that say what is read: a text, a file, an image, audio, or a message of a chat."""

from dataclasses import dataclass

from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.run.chat_messages import ChatMessages, messages_before
from attn_cli.errors import InputError
from attn_cli.sources import Reading


@dataclass(frozen=True)
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
    system: o.System = None
    messages: o.Messages = None

    @property
    def without_text(self) -> bool:
        """Whether no text is given and none is needed, because an image, audio, --inputs or messages are read alone."""
        instead = (self.inputs, self.image or None, self.audio or None, self.messages)
        return any(x is not None for x in instead) and (self.text, self.file, self.lines) == (None, None, False)

    @property
    def in_chat(self) -> bool:
        """Whether the text is a message of a chat; --system and --messages imply it."""
        return self.chat or self.system is not None or self.messages is not None

    def chat_before(self) -> ChatMessages | None:
        """The chat messages before the text; None if the text is not a message of a chat."""
        if not self.in_chat:
            return None
        if self.pair is not None or self.inputs is not None:
            raise InputError("a chat and --pair or --inputs at once", "a chat is one text")
        return messages_before(self.system, self.messages)

    def reading(self) -> Reading:
        """What the source reads beside texts or instead of them, all of it checked."""
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
    """InputError where a text, or an image or audio, is given beside --inputs, which hold all that is read."""
    if inputs is not None and text:
        raise InputError("a text and --inputs at once", "give one of them")
    if inputs is not None and media:
        raise InputError("--inputs and --image or --audio at once", "give one of them")
