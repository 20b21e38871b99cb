"""The contents of a page beside the weights, all text made visible: its length in 4 bytes, JSON, the arrays."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from attn_cli.prompt import Prompt, Token, later_pieces
from attn_cli.recording import LEVELS, MASKED, RecordedLayer, Recording
from attn_cli.summaries.calls.image_grid import image_grids
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.heads import STATISTICS
from attn_cli.summaries.report import runs_model
from attn_cli.summaries.standing_out import NO_KIND, StandOut, counts, families_of, named_kinds, standing_out
from attn_cli.summaries.told.story import opening_head
from attn_cli.text import counted, model_name, visible
from attn_cli.views.webpage.packing import packed_mask

_SPECIAL, _GENERATED, _ENDS_LINE, _LATER_PIECE = 1, 2, 4, 8  # flags of a token
_SHADES = 17  # of a thumbnail in a page: fewer than it has, for they deflate to a third
_LONGEST_TITLE = 160
_PICTURE_SIDES = {64: 320, 32: 320, 16: 160, 0: 0}  # pixels of the image that was read, by those of thumbnails


class Contents:
    """What a page holds beside the weights: `document` becomes its JSON text and points into the bytes of `blob`."""

    def __init__(self, recording: Recording, pixels: int, summaries: Sequence[Summary]) -> None:
        self.blob = bytearray()
        self._masks: dict[bytes, int] = {}
        read, side = recording.prompt.picture, _PICTURE_SIDES[pixels]
        step = 1 if read is None or not side else -(-max(read.shape) // side)
        picture = None if read is None or not side else read[::step, ::step]
        texts = _Texts(recording.prompt, has_picture=picture is not None)
        layers = [self._layer(layer, texts, pixels) for layer in recording.layers]
        outs = standing_out(summaries)
        self.document: dict[str, Any] = {
            "title": title(recording),
            "model": _model(recording),
            "about": list(about(recording)),
            "statistics": _statistics(recording.layers),
            "layers": layers,
            "start": start(recording, outs),
            "work": _work(summaries, outs),
            "texts": texts.documents,
            "picture": None if picture is None else [self._place(picture.tobytes()), *picture.shape],
        }

    def stream(self, more: Mapping[str, Any]) -> bytes:
        """The page's data: the length of the JSON text in 4 bytes, that text with the entries of `more`, the arrays."""
        text = orjson.dumps(self.document | dict(more), option=orjson.OPT_SERIALIZE_NUMPY)
        return len(text).to_bytes(4, "little") + text + bytes(self.blob)

    def _layer(self, layer: RecordedLayer, texts: "_Texts", pixels: int) -> dict[str, Any]:
        place = layer.place
        picture = thumbnails(layer, pixels)
        return {
            "layer": place.layer,
            "call": place.call,
            "stream": visible(place.stream),
            "heads": list(place.heads),
            "queries": texts.number(layer.queries),
            "keys": texts.number(layer.keys),
            "mask": self._mask(layer),
            "rule": visible(str(layer.rule.mask)),
            "sink": layer.rule.sink is not None,
            "numbers": {name: _rounded(values) for name, values in layer.statistics.items()},
            "thumbnail": [self._place(picture.tobytes()), *picture.shape[1:]],
        }

    def _mask(self, layer: RecordedLayer) -> int:
        data = packed_mask(layer)
        if data not in self._masks:
            self._masks[data] = self._place(data)
        return self._masks[data]

    def _place(self, data: bytes) -> int:
        place = len(self.blob)
        self.blob += data
        return place


class _Texts:
    """The sequences of tokens that are queries or keys, each once."""

    def __init__(self, prompt: Prompt, *, has_picture: bool) -> None:
        self.prompt, self.has_picture = prompt, has_picture
        self.documents: list[dict[str, Any]] = []
        self._numbers: dict[tuple[Token, ...], int] = {}

    def number(self, tokens: tuple[Token, ...]) -> int:
        """The place of a sequence of tokens in `documents`."""
        if tokens not in self._numbers:
            self._numbers[tokens] = len(self.documents)
            text = self.prompt.text if tokens == self.prompt.tokens else None
            gaps = list(_gaps(tokens, text))
            lines = ["\n" in token.text or "\n" in gap for token, gap in zip(tokens, [*gaps[1:], ""], strict=True)]
            flags = [
                _SPECIAL * token.special + _GENERATED * token.generated + _ENDS_LINE * ends + _LATER_PIECE * later
                for token, ends, later in zip(tokens, lines, later_pieces(tokens), strict=True)
            ]
            self.documents.append({
                "numbers": None if _are_counted(tokens) else [token.index for token in tokens],
                "tokens": [_label(token) for token in tokens],
                "gaps": [visible(gap.replace("\n", " ")) for gap in gaps],
                "flags": flags,
                "grid": grids[0].cells.tolist() if self.has_picture and (grids := image_grids(tokens)) else None,
            })  # fmt: skip
        return self._numbers[tokens]


def title(recording: Recording) -> str:
    """The page's title: the text in a line, cut where it is long; without a text its files' names, or the model's."""
    prompt = recording.prompt
    text = prompt.text if prompt.generated is None else prompt.text[: prompt.generated.start]
    words = " ".join(visible(text.replace("\n", " ")).split())
    words = words or ", ".join(visible(file) for file in prompt.files.values()) or _model(recording)
    return words if len(words) <= _LONGEST_TITLE else words[: _LONGEST_TITLE - 1] + "…"


def start(recording: Recording, outs: Sequence[StandOut]) -> tuple[int, int]:
    """The head to begin with, by indices: that of the recording's story, else the one most clearly of a kind."""
    head = opening_head(recording)
    return (head["at"], head["head"]) if head else (outs[0].call, outs[0].at) if outs else (0, 0)


def _work(summaries: Sequence[Summary], outs: Sequence[StandOut]) -> dict[str, Any]:
    return {
        "heads": [
            {"layer": out.call, "head": out.at, "weight": round(out.weight, 3), "words": out.sentence,
             "cell": None if out.strongest is None else out.strongest[:2]}
            for out in outs
        ],
        "families": [
            {"name": heads[0].kind.words, "does": heads[0].kind.does, "heads": [outs.index(out) for out in heads]}
            for heads in families_of(outs)
        ],
        "counts": counts(summaries),
        "does": [
            ["" if kind is NO_KIND else kind.does for kind in named_kinds(summary)] for summary in summaries
        ],
    }  # fmt: skip


def _model(recording: Recording) -> str:
    return visible(model_name(str(recording.about["model"])))


def about(recording: Recording) -> Iterator[str]:
    """What a page says of a recording: the model, its number type, and how many layers, heads and tokens there are."""
    source, layers = recording.about, recording.layers
    yield _model(recording)
    if runs_model(source):
        yield visible(str(source["dtype"]))
    blocks = len({(layer.place.stream, layer.place.layer) for layer in layers})
    yield f"{counted(blocks, 'layer')}, {counted(sum(layer.h for layer in layers), 'head')}"
    yield counted(len(recording.prompt.tokens), "token")
    if recording.prompt.generated is not None:
        yield f"{counted(recording.prompt.generated.tokens, 'token')} of them written by the model"


def thumbnails(layer: RecordedLayer, pixels: int) -> np.ndarray:
    """The largest weights of blocks of a layer's heads `[h, <= pixels, <= pixels]`, as bytes of 17 shades."""
    maps = layer.thumbnail
    if pixels == 0:
        return maps[:, :0, :0]
    maps = _folded(_folded(maps, pixels, axis=1), pixels, axis=2)
    shades = np.round(maps / LEVELS * (_SHADES - 1)).astype(np.uint8) * (LEVELS // (_SHADES - 1))
    return np.where(maps == MASKED, np.uint8(MASKED), shades)


def _folded(maps: np.ndarray, pixels: int, axis: int) -> np.ndarray:
    step = -(-maps.shape[axis] // pixels)
    if step <= 1:
        return maps
    order = maps + np.uint8(1)  # masked: 0
    return np.maximum.reduceat(order, np.arange(0, maps.shape[axis], step), axis=axis) - np.uint8(1)


def _statistics(layers: Sequence[RecordedLayer]) -> list[dict[str, Any]]:
    return [
        {"name": statistic.name, "heading": statistic.heading, "digits": statistic.digits}
        for statistic in STATISTICS
        if any(np.isfinite(layer.statistics.get(statistic.name, np.nan)).any() for layer in layers)
    ]


def _rounded(values: np.ndarray) -> list[float | None]:
    return [float(f"{value:.4g}") if np.isfinite(value) else None for value in values.tolist()]


def _label(token: Token) -> str:
    text = token.text if token.text.strip(" ") or not token.text else "␣" * len(token.text)
    return visible(text.replace("\n", "↵"))  # browsers have a glyph for it more often than for ␊


def _gaps(tokens: Sequence[Token], text: str | None) -> Iterator[str]:
    """The text that stands before every token and is part of none; a blank where that is unknown."""
    end = 0
    for number, token in enumerate(tokens):
        if text is None or token.start is None or token.end is None:
            yield " " if number else ""
            continue
        gap = text[end : token.start] if token.start >= end else ""
        yield gap or (" " if number and tokens[number - 1].start is None else "")
        end = max(end, token.end)


def _are_counted(tokens: Sequence[Token]) -> bool:
    return all(token.index == number for number, token in enumerate(tokens))
