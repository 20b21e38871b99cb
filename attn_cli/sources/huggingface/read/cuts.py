"""What a processor or a tokenizer leaves out of audio, a picture or a text: asked by changing the part in question."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers.utils import cached_file

from attn_cli.errors import LoadError
from attn_cli.prompt import Token
from attn_cli.sources.files.json_document import read_json_document
from attn_cli.sources.huggingface.load.origin import Origin
from attn_cli.text import excerpt

if TYPE_CHECKING:
    from PIL.Image import Image

_EDGE = 0.015  # of a picture at each edge: less is rounding at its edges


def audio_notes(samples: np.ndarray, rate: int, run: Callable[[np.ndarray], Mapping[str, Any]]) -> tuple[str, ...]:
    """A note on the end of the audio, where other samples there change nothing of what `run` makes of it; else ()."""
    whole, noise = run(samples), np.random.default_rng(0).normal(0, 0.1, len(samples)).astype(np.float32)
    if not _alike(run(samples), whole):
        return ("its processor makes other numbers of the same audio each time: of a part at random, or with noise",)
    unheard = _unread(samples, noise, rate // 10, rate // 1000, lambda other: _alike(run(other), whole))
    heard, seconds = (len(samples) - unheard) / rate, len(samples) / rate
    return (f"heard 0-{heard:.2f} s of {seconds:.2f} s: its processor cuts the audio",) if unheard else ()


def picture_notes(image: "Image", run: Callable[["Image"], Mapping[str, Any]]) -> tuple[str, ...]:
    """A note on the share of a picture whose pixels change what `run` makes of it, where a border doesn't; else ()."""
    from PIL import Image  # an optional package

    pixels, whole, unseen = np.asarray(image), run(image), []
    for turns in range(4):  # every edge once at the end

        def is_unseen(turned: np.ndarray, back: int = -turns) -> bool:
            return _alike(run(Image.fromarray(np.ascontiguousarray(np.rot90(turned, back)))), whole)

        turned = np.rot90(pixels, turns)
        contrast = np.where(turned < 128, 255, 0).astype(np.uint8)
        size = len(turned)
        unseen.append(_unread(turned, contrast, max(round(size * _EDGE), 1), 1, is_unseen) / size)
    seen = (1 - unseen[0] - unseen[2]) * (1 - unseen[1] - unseen[3])
    return () if seen == 1 else (f"seen {seen:.0%} of the picture: its processor crops it",)


def _unread(array: np.ndarray, other: np.ndarray, least: int, step: int, is_same: Callable[[np.ndarray], bool]) -> int:
    """How much of the end of `array` can be that of `other`, by halves to `step`; 0 where not even the least."""
    most, unread = len(array), 0
    middle = least
    while middle < most and most - unread > step:
        if is_same(np.concatenate([array[: len(array) - middle], other[len(array) - middle :]])):
            unread = middle
        elif not unread:
            return 0
        else:
            most = middle
        middle = (unread + most) // 2
    return unread


def text_notes(text: str, tokens: Sequence[Token]) -> tuple[str, ...]:
    """A note on the end of a text that has letters or digits and no tokens; () where all is read."""
    ends = [token.end for token in tokens if token.end is not None]
    if not ends or not any(map(str.isalnum, text[max(ends) :])):
        return ()
    return (f"read {max(ends):,} of {len(text):,} characters: the text is cut",)


def sentence_notes(origin: Origin, text: str, count: int) -> tuple[str, ...]:
    """Notes on what sentence-transformers cuts from a text of `count` tokens, or puts before it."""
    most = _settings(origin, "sentence_bert_config.json").get("max_seq_length")
    notes = []
    if isinstance(most, int) and most < count:
        notes.append(f"sentence-transformers reads the first {most:,} of the {count:,} tokens")
    asked = _settings(origin, "config_sentence_transformers.json")
    prompts, name = asked.get("prompts"), asked.get("default_prompt_name")
    before = prompts.get(name) if isinstance(prompts, dict) and isinstance(name, str) else None
    if isinstance(before, str) and not text.startswith(before):
        notes.append(f'sentence-transformers puts "{excerpt(before, 40)}" before the text, attn does not')
    return tuple(notes)


def _settings(origin: Origin, name: str) -> dict[str, Any]:
    with suppress(OSError, LoadError):
        file = cached_file(origin.path, name, revision=origin.revision, local_files_only=True)
        content = read_json_document(Path(file), file, LoadError, "")
        return content if isinstance(content, dict) else {}
    return {}


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(
        torch.equal(array, other[name]) if isinstance(array, torch.Tensor) else True for name, array in one.items()
    )
