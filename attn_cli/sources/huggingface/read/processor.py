"""Turns an image and audio, with their text, into arrays by the model's own processor."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

from transformers import (
    AutoFeatureExtractor,
    AutoImageProcessor,
    AutoProcessor,
    FeatureExtractionMixin,
    PreTrainedTokenizerBase,
)
from transformers.utils import is_torchvision_available

from attn_cli.errors import InputError, LoadError, reason
from attn_cli.sources.huggingface.anatomy.forward_arguments import takes_any
from attn_cli.sources.huggingface.anatomy.unseen_parts import INPUT_NAMES
from attn_cli.sources.huggingface.compat import processor_parts, replaced
from attn_cli.sources.huggingface.known_types import PADDED_TO_FULL_LENGTH
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.load.load_errors import load_error
from attn_cli.sources.huggingface.load.origin import PROCESSOR_FILES, Origin
from attn_cli.sources.huggingface.read.chat_template import in_parts, no_template, rendered
from attn_cli.sources.huggingface.read.media import Media
from attn_cli.sources.huggingface.read.positions import position_count
from attn_cli.text import counted

_PART = "video_processor"


class NoVideo(FeatureExtractionMixin):  # type: ignore[misc]
    """Replaces a processor's part for videos; never called, since no videos are read."""

    from_pretrained = classmethod(lambda cls, *_, **__: cls())


@contextmanager
def without_videos() -> Iterator[None]:
    """Context manager: if torchvision is missing, processors load with `NoVideo` as their part for videos."""
    if is_torchvision_available():
        yield
        return
    loaders, kinds = processor_parts()
    own, base = (__name__, NoVideo.__name__), FeatureExtractionMixin.__name__
    with replaced(loaders, {_PART: own}), replaced(kinds, {_PART: base}):
        yield


# The arguments of a model's forward that hold an image or audio.
_ARGUMENTS = {
    "image": tuple(name for name in INPUT_NAMES["vision"] if not name.endswith("videos")),
    "audio": INPUT_NAMES["audio"],
}


class MarkedText(NamedTuple):
    """A processor's text with marks such as <image> for media; `complete` with the template's special tokens."""

    text: str
    complete: bool = False
    notes: tuple[str, ...] = ()


class Processor:
    """Turns media and a text into the arguments of one model's forward; InputError for what the model doesn't read."""

    def __init__(self, loaded: LoadedModel, media: Media) -> None:
        self.media, self.name = media, str(loaded.about["model"])
        self.description = f"{self.name} ({loaded.about['type']})"
        self._kinds, parameters = [*media.counts], signature(loaded.model.forward).parameters
        self._takes = None if takes_any(loaded.model) else {*parameters}
        self.reads_text = "input_ids" in parameters
        readable = [kind for kind, names in _ARGUMENTS.items() if any(name in parameters for name in names)]
        if unread := [kind for kind in self._kinds if kind not in readable]:
            main = "text alone" if self.reads_text else f"{next(iter(parameters))}, by -F FILE.npz"
            hint = f"it reads --{readable[0]}" if readable else f"it reads {main}"
            raise InputError(f"{self.description} takes no --{unread[0]}", hint)
        if len(media.images) > 1 and not self.reads_text:
            raise self.one_image()
        has_full_length = loaded.about["type"] in PADDED_TO_FULL_LENGTH
        self.padded_length = position_count(loaded.model) if has_full_length else None
        self.processor = self._load_processor(loaded.origin)
        parts = (getattr(self.processor, name, None) for name in ("feature_extractor", "audio_processor"))
        self.extractor: Any = next((part for part in parts if part is not None), self.processor)
        if media.audio is not None:
            rate = getattr(self.extractor, "sampling_rate", None)
            if not isinstance(rate, int):
                raise LoadError(f"{self.name}: its processor states no rate of samples", "give arrays with -F FILE.npz")
            self.media = replace(media, audio=media.audio.at(rate))

    def marked_text(self, text: str, chat: Mapping[str, Any] | None) -> MarkedText:
        """The text with a mark for each medium: where the user or the chat template put it, else before the text."""
        if not self.reads_text:
            if text or chat is not None:
                raise InputError(f"{self.description} reads no text beside --{self._kinds[0]}", "leave out the text")
            return MarkedText("")
        marks = {mark: count for kind, count in self.media.counts.items() if (mark := self._mark(kind))}
        missing = [mark for mark in marks if mark not in text]
        for mark, count in marks.items():
            if text.count(mark) not in (0, count):
                places = f"{counted(text.count(mark), 'place')} for {counted(count, 'file')}"
                raise InputError(f"the text has {places} ({mark})", "give each file its place, or none")
        if not text and not marks:
            raise InputError(f"{self.description} reads a text beside --{self._kinds[0]}", "give the text too")
        if chat is None and not missing:
            return MarkedText(text)
        if getattr(self.processor, "chat_template", None):
            marked_text, notes = self._in_chat(text, chat or {"messages": ()}, missing)
            own = () if chat is not None else ("the text is read as a message: the chat template adds the image",)
            return MarkedText(marked_text, complete=True, notes=own + notes)
        if chat is not None:
            raise no_template(self.name)
        return MarkedText("".join(mark * marks[mark] for mark in missing) + text)

    def one_image(self) -> InputError:
        """The error for a model that reads no second image."""
        return InputError(f"{self.description} reads one image at a time", "give one --image")

    def arrays(self, marked_text: MarkedText) -> dict[str, Any]:
        """The processor's arrays for one example that the forward takes, batched: a leading axis of 1."""
        audio, images = self.media.audio, list(self.media.images)
        if not self.reads_text and audio is not None:
            return self._run_processor(audio.samples, sampling_rate=audio.rate)
        arguments: dict[str, Any] = {"images": images[0] if len(images) == 1 else images} if images else {}
        if not self.reads_text:
            return self._run_processor(**arguments)
        if audio is not None:
            arguments |= {"audio": audio.samples, "sampling_rate": audio.rate}
        if marked_text.complete:
            arguments["add_special_tokens"] = False
        if self.padded_length is not None:
            arguments |= {"padding": "max_length", "max_length": self.padded_length}
        try:
            return self._run_processor(text=[marked_text.text], **arguments)
        except InputError:
            if len(images) < 2:
                raise
        return self._run_processor(text=[marked_text.text], **arguments | {"images": [images]})  # those of each text

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer of a model that reads text, with what the processor added to it."""
        return self.processor.tokenizer

    def _mark(self, kind: str) -> str | None:
        mark = getattr(self.processor, f"{kind}_token", None)
        return None if mark is None else str(mark)

    def _in_chat(self, text: str, chat: Mapping[str, Any], missing: Sequence[str]) -> tuple[str, tuple[str, ...]]:
        messages = [{**m, "content": in_parts(m["content"])} if m.get("content") else m for m in chat["messages"]]
        placed = {part.get("type") for message in messages for part in message.get("content") or ()}
        new = {kind: n for kind, n in self.media.counts.items() if self._mark(kind) in missing and kind not in placed}
        media = [{"type": kind} for kind, count in new.items() for _ in range(count)]
        if media or text:
            messages.append({"role": "user", "content": [*media, *(in_parts(text) if text else [])]})
        hint = f"put {' and '.join(missing)} into the text where it belongs" if missing else "leave out --chat"
        return rendered(self.processor, messages, self.name, hint, chat)

    def _run_processor(self, *args: Any, **keywords: Any) -> dict[str, Any]:
        try:
            arrays = dict(self.processor(*args, **keywords, return_tensors="pt"))
        except (ValueError, TypeError, LookupError, RuntimeError, AttributeError, ArithmeticError) as error:
            line = f"{self.description}: its processor can't take this: {reason(error)}"
            raise InputError(line, "--debug shows the whole story") from error
        for kind in self._kinds:
            if not any(name in arrays for name in _ARGUMENTS[kind]):  # a bare tokenizer ignores unknown arguments
                line = f"{self.description}: its processor takes no --{kind}"
                raise LoadError(line, "are the processor's files complete?")
        texts = [name for name, x in arrays.items() if isinstance(x, list) and str in map(type, x)]  # to tokenize
        takes = arrays if self._takes is None else self._takes
        return {name: x for name, x in arrays.items() if name in takes and name not in texts}

    def _load_processor(self, origin: Origin) -> Any:
        folder = Path(origin.path)
        if origin.local and not any((folder / name).is_file() for name in PROCESSOR_FILES):
            hint = "copy that file of the original model into the folder, or give prepared arrays with -F FILE.npz"
            raise LoadError(f"{self.name} has no processor (neither {' nor '.join(PROCESSOR_FILES)})", hint)
        kind = AutoImageProcessor if self.media.images else AutoFeatureExtractor
        try:
            with without_videos():
                return (AutoProcessor if self.reads_text else kind).from_pretrained(origin.path, **origin.hub)
        except Exception as error:  # errors of any type, as in `load`
            raise load_error(error, origin) from error


def file_option(name: str) -> str:
    """The end of a hint for the forward's argument `name`; "" where no option gives it."""
    kinds = (kind for kind, names in _ARGUMENTS.items() if name in names)
    return next((f", attn top and matrix take --{kind} FILE" for kind in kinds), "")
