"""The contents of a page beside the weights: the story, tokens, layers and what heads do, all text made visible."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from attn_cli.prompt import Prompt, Token, later_pieces
from attn_cli.recording import RecordedLayer, Recording
from attn_cli.summaries.answer import head_name
from attn_cli.summaries.answers.kinds import recorded_kinds
from attn_cli.summaries.calls.image_grid import image_grids
from attn_cli.summaries.reducers.heads import STATISTICS
from attn_cli.summaries.report import runs_model
from attn_cli.summaries.standing_out import NO_KIND, StandOut, counts, families_of, named_kinds, standing_out
from attn_cli.summaries.text_sinks import sink_words, text_sinks
from attn_cli.summaries.told.story import Row, kept_story, main_head, needed, readers, recorded_cell
from attn_cli.text import counted, model_name, visible
from attn_cli.views.answers.story import MOST_HEADS, against, answer_words, word_label, words_told
from attn_cli.views.drawing.figure import written

HEAVIEST = 8  # keys of a row in a text too long for all
_WHOLE = 32  # keys; of so many every row has all
_SPECIAL, _GENERATED, _ENDS_LINE, _LATER_PIECE = 1, 2, 4, 8  # flags of a token
_LONGEST_TITLE = 160
_ROWS = 256  # of a mask that are looked at at once
_PICTURE = 320  # pixels on a side of the image that was read, at most


def is_whole(m: int) -> bool:
    """True if rows of m keys are kept whole, and not their heaviest keys alone."""
    return m <= _WHOLE


class Contents:
    """`document` becomes the page's JSON and points into `arrays`; `named` are the heads, by indices, that it names."""

    def __init__(self, recording: Recording) -> None:
        summaries = recorded_kinds(recording)
        outs, self.arrays = standing_out(summaries), bytearray()
        self._masks: dict[bytes, int] = {}
        read = recording.prompt.picture
        step = 1 if read is None else -(-max(read.shape) // _PICTURE)
        texts = _Texts(recording.prompt)
        layers = [self._layer(layer, texts) for layer in recording.layers]  # masks first: browsers align whole numbers
        picture, story = None if read is None else read[::step, ::step], list(_story(recording))
        self.document: dict[str, Any] = {
            "about": list(about(recording)),
            "statistics": _statistics(recording.layers),
            "layers": layers,
            "start": start(recording, outs),
            "story": story,
            "sinks": [f"sink {visible(words)}" for words in sink_words(text_sinks(summaries))],
            "outs": [_out(out) for out in outs],
            "families": [
                {"name": heads[0].kind.words, "does": heads[0].kind.does, "heads": [outs.index(out) for out in heads]}
                for heads in families_of(outs)
            ],
            "counts": counts(summaries),
            "does": [["" if kind is NO_KIND else kind.does for kind in named_kinds(each)] for each in summaries],
            "texts": texts.documents,
            "picture": None if picture is None else [self._place(picture.tobytes()), *picture.shape],
        }
        self.named = {(out.call, out.at) for out in outs} | {(0, 0)}
        self.named |= {tuple(piece["cell"][:2]) for line in story for piece in line if "cell" in piece}

    def _layer(self, layer: RecordedLayer, texts: "_Texts") -> dict[str, Any]:
        place = layer.place
        return {
            "layer": place.layer,
            "call": place.call,
            "stream": visible(place.stream),
            "heads": list(place.heads),
            "queries": texts.number(layer.queries),
            "keys": texts.number(layer.keys),
            "whole": is_whole(layer.m),
            "mask": self._mask(layer),
            "rule": visible(str(layer.rule.mask)),
            "softmax": layer.rule.softmax,
            "sink": layer.rule.sink is not None,
            "numbers": {name: _rounded(values) for name, values in layer.statistics.items()},
        }

    def _mask(self, layer: RecordedLayer) -> int:
        """The place of int32 `[n, 3]`: the first key of each query, the key after the last, and how many there are."""
        rows = []
        for start in range(0, layer.n, _ROWS):
            allowed = layer.allowed(slice(start, min(start + _ROWS, layer.n)), slice(0, layer.m))
            first, count = allowed.argmax(axis=1), allowed.sum(axis=1)
            last = np.where(count > 0, layer.m - allowed[:, ::-1].argmax(axis=1), first)
            rows.append(np.stack([first, last, count], axis=1))
        data = np.concatenate(rows).astype("<i4").tobytes()
        if data not in self._masks:
            self._masks[data] = self._place(data)
        return self._masks[data]

    def _place(self, data: bytes) -> int:
        place = len(self.arrays)
        self.arrays += data
        return place


class _Texts:
    """The sequences of tokens that are queries or keys, each once."""

    def __init__(self, prompt: Prompt) -> None:
        self.prompt = prompt
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
            grids = image_grids(tokens) if self.prompt.picture is not None else []
            document = {
                "numbers": None if _are_counted(tokens) else [token.index for token in tokens],
                "tokens": [_label(token) for token in tokens],
                "gaps": [visible(gap.replace("\n", " ")) for gap in gaps],
                "flags": flags,
                "grid": grids[0].cells.tolist() if grids else None,
            }
            self.documents.append(document)
        return self._numbers[tokens]


def title(recording: Recording) -> str:
    """The page's title: the text in a line, cut where it is long; without a text its files' names, or the model's."""
    prompt = recording.prompt
    text = prompt.text if prompt.generated is None else prompt.text[: prompt.generated.start]
    words = " ".join(visible(text.replace("\n", " ")).split())
    words = words or ", ".join(visible(file) for file in prompt.files.values()) or _model(recording)
    return words if len(words) <= _LONGEST_TITLE else words[: _LONGEST_TITLE - 1] + "…"


def start(recording: Recording, outs: Sequence[StandOut]) -> tuple[int, ...]:
    """The head to begin with, by indices, and its cell: that of the story, else of the one most clearly of a kind."""
    story = kept_story(recording.told)
    head = None if story is None else main_head(story)
    cell = None if story is None or head is None else recorded_cell(recording, story, head)
    return cell or next(map(_cell, outs), (0, 0))


def _cell(out: StandOut) -> tuple[int, ...]:
    return (out.call, out.at, *(() if out.strongest is None else out.strongest[:2]))


def _out(out: StandOut) -> dict[str, Any]:
    return {"cell": _cell(out), "weight": round(out.weight, 3), "words": out.sentence}


def _story(recording: Recording) -> Iterator[list[dict[str, Any]]]:
    """Lines of the story: pieces of text, some with the cell that they open, by indices of layer, head, query, key."""
    story = kept_story(recording.told)
    if story is None:
        return

    def piece(words: str, head: Row | None = None, key: int | None = None) -> dict[str, Any]:
        cell = None if head is None else recorded_cell(recording, story, head)
        return {"text": written(words)} | ({} if cell is None else {"cell": cell if key is None else (*cell[:3], key)})

    yield [piece(words) for words in answer_words(story, recording.prompt)]
    if story["obstacle"]:
        yield [piece(f"needs: not measured: {story['obstacle']}")]
    for at, word in enumerate(words_told(story)):
        heads = readers(story, word)[:MOST_HEADS]
        cut = "" if story["cut"] == "words" else " ".join(word["text"].split())
        line = [piece("and" if at else "needs"), piece(word_label(word, story), next(iter(heads), None), word["key"])]
        yield [*line, piece(f"{word['bits']:+.2f} bits without it"), *([piece(cut)] if cut else [])] + (
            [piece("brought by"), *(piece(head_name(head), head) for head in heads)] if heads else []
        )
    if not words_told(story) and needed(story["heads"]):
        yield [piece("by"), *(piece(head_name(head), head) for head in needed(story["heads"])[:MOST_HEADS])]
    if words := against(story):
        yield [piece("against"), *map(piece, words)]


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
    return written(text)


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
