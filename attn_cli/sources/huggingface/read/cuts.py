"""What a processor or a tokenizer leaves out of audio, a picture or a text: asked by changing the part in question."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers.utils import cached_file

from attn_cli.errors import LoadError
from attn_cli.picture import Box
from attn_cli.prompt import Token
from attn_cli.sources.files.json_document import read_json_document
from attn_cli.sources.huggingface.anatomy.picture_places import Placement
from attn_cli.sources.huggingface.load.origin import Origin
from attn_cli.text import excerpt

_ALL = 0.97  # of a picture: less than all is rounding at its edges


def audio_notes(samples: np.ndarray, rate: int, run: Callable[[np.ndarray], Mapping[str, Any]]) -> tuple[str, ...]:
    """A note on the end of the audio, where other samples there change nothing of what `run` makes of it; else ()."""
    whole, noise = run(samples), np.random.default_rng(0).normal(0, 0.1, len(samples)).astype(np.float32)
    if not _alike(run(samples), whole):
        return ("its processor makes other numbers of the same audio each time: of a part at random, or with noise",)

    def is_unheard(start: int) -> bool:
        return _alike(run(np.concatenate([samples[:start], noise[start:]])), whole)

    heard, unheard = 0, len(samples) - rate // 10
    if unheard <= 0 or not is_unheard(unheard):
        return ()
    while unheard - heard > rate // 1000:
        middle = (heard + unheard) // 2
        heard, unheard = (heard, middle) if is_unheard(middle) else (middle, unheard)
    return (f"heard 0-{unheard / rate:.2f} s of {len(samples) / rate:.2f} s: its processor cuts the audio",)


def picture_notes(
    size: tuple[int, int], tiles: torch.Tensor | None, places: Sequence[Placement | None]
) -> tuple[str, ...]:
    """A note on the share of a picture of `size` (height, width) that no tile `[tiles, 3, h, w]` shows; () for all."""
    if tiles is None or not places or None in places:
        return ()
    seen = np.zeros(size, bool)
    for place in places:
        assert place is not None
        box = [max(round(edge), 0) for edge in place.box(Box(0, 0, *tiles.shape[2:]))]
        seen[box[0] : box[2], box[1] : box[3]] = True
    return () if seen.mean() > _ALL else (f"seen {seen.mean():.0%} of the picture: its processor crops it",)


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
