"""The contents of a page beside the weights: the story, tokens, layers and what heads do, all text made visible."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
from rich.color import Color

from attn_cli.prompt import Token, later_pieces
from attn_cli.recording import RecordedLayer, Recording
from attn_cli.summaries.answer import head_name
from attn_cli.summaries.answers.kinds import recorded_kinds
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.heads import STATISTICS
from attn_cli.summaries.reducers.keys import whole_row
from attn_cli.summaries.reducers.kinds.targets import Kind
from attn_cli.summaries.report import runs_model
from attn_cli.summaries.standing_out import NO_KIND, StandOut, counts, families_of, kinds_by_head, standing_out
from attn_cli.summaries.text_sinks import sink_words, text_sinks
from attn_cli.summaries.told.overview import recorded_reads
from attn_cli.summaries.told.story import head_cell, kept_story, main_head
from attn_cli.summaries.told.word_reads import strongest_link
from attn_cli.text import counted, cut, model_name, visible
from attn_cli.views.answers import word_reads
from attn_cli.views.answers.story import linked_lines
from attn_cli.views.drawing.figure import written
from attn_cli.views.drawing.image_grid import image_grids
from attn_cli.views.drawing.labels import look_of
from attn_cli.views.drawing.palette import color_at, is_light
from attn_cli.views.drawing.text_layout import gaps

Line: TypeAlias = list[dict[str, Any]]

HEAVIEST = 8  # keys of a row in a text too long for all
WHOLE = 32  # keys: of so many every row has all
_SPECIAL, _GENERATED, _LATER_PIECE = 1, 2, 4  # flags of a token
_LONGEST_TITLE, _LINES = 160, 2  # characters; lines of data before those of the heads
ROWS = 256  # that are computed at once
_COLOURS = ("paper", "bids:viridis")  # of light pages and of dark ones
_PICTURE = 320  # pixels on a side of the image that was read, at most


class Contents:
    """`document` becomes the page's JSON and points into `arrays`; `named` are the heads, by indices, that it names."""

    def __init__(self, recording: Recording) -> None:
        summaries, self.prompt = recorded_kinds(recording), recording.prompt
        outs, self.arrays = standing_out(summaries), bytearray()
        self._places: dict[bytes, int] = {}
        self._texts: dict[tuple[Token, ...], dict[str, Any]] = {}
        does = {(each.place, at): _does(kind, perhaps) for each, at, kind, perhaps, _ in kinds_by_head(summaries)}
        kinds = [{"words": ""}, *{str(each): each for each in does.values()}.values()]
        layers = [self._layer(layer) for layer in recording.layers]  # masks first: browsers align whole numbers
        lines = accumulate((each.h for each in recording.layers), initial=_LINES)
        for layer, each, line in zip(layers, recording.layers, lines, strict=False):
            layer |= {"line": line, "does": [kinds.index(does.get((each.place, at), kinds[0])) for at in range(each.h)]}
        for out in outs:
            own = {"words": out.sentence, "cell": _cell(out)}
            layers[out.call]["does"][out.at] = _does(out.kind, not out.is_judged) | own
        reads = recorded_reads(recording, summaries)
        links = list(word_reads.linked_lines(recording, reads))
        first = {"text": strongest_link(reads, self.prompt) if reads else title(recording)}
        story = list(linked_lines(recording)) or [[first], *links]
        story += [[{"text": "sink"}, {"text": visible(words)}] for words in sink_words(text_sinks(summaries))]
        self.document: dict[str, Any] = {
            "about": _about(recording),
            "colours": [[_inked(color_at(at, name, "truecolor")) for at in range(0, 256, 5)] for name in _COLOURS],
            "whole": WHOLE,
            "statistics": [
                {"name": each.name, "heading": each.heading}
                for each in STATISTICS
                if any(np.isfinite(layer.statistics.get(each.name, np.nan)).any() for layer in recording.layers)
            ],
            "layers": layers,
            "kinds": kinds,
            "aim": "what a token reads" if links else "a word that the answer needs",
            "start": start(recording, outs, [line[1]["cell"] for line in links]),
            "story": story,
            "families": list(_families(outs, summaries)),
            "texts": list(self._texts.values()),
            "picture": None if self.prompt.picture is None else self._picture(self.prompt.picture),
        }
        self.named = {(out.call, out.at) for out in outs} | {(0, 0)}
        self.named |= {tuple(piece["cell"][:2]) for line in story for piece in line if "cell" in piece}

    def _layer(self, layer: RecordedLayer) -> dict[str, Any]:
        place = layer.place
        return {
            "layer": place.layer,
            "call": place.call,
            "stream": visible(place.stream),
            "heads": list(place.heads),
            "queries": self._text(layer.queries),
            "keys": self._text(layer.keys),
            "mask": self._mask(layer),
            "rule": visible(str(layer.rule.mask)),
            "softmax": layer.rule.softmax,
            "sink": layer.rule.sink is not None,
            "numbers": {name: np.round(x.astype(float), 2).tolist() for name, x in layer.statistics.items()},
        }

    def _mask(self, layer: RecordedLayer) -> int:
        """The place of int32 `[n, 3]`: the first key of each query, the key after the last, and how many there are."""
        rows = []
        for start in range(0, layer.n, ROWS):
            allowed = layer.allowed(slice(start, min(start + ROWS, layer.n)), slice(0, layer.m))
            first, count = allowed.argmax(axis=1), allowed.sum(axis=1)
            last = np.where(count > 0, layer.m - allowed[:, ::-1].argmax(axis=1), first)
            rows.append(np.stack([first, last, count], axis=1))
        return self._place(np.concatenate(rows).astype("<i4").tobytes())

    def _picture(self, picture: np.ndarray) -> list[int]:
        step = -(-max(picture.shape) // _PICTURE)
        shown = np.insert(picture[::step, ::step], 3, 255, axis=2)  # nothing of it is seen through
        return [self._place(shown.tobytes()), *shown.shape[:2]]

    def _place(self, data: bytes) -> int:
        if data not in self._places:
            self._places[data] = len(self.arrays)
            self.arrays += data
        return self._places[data]

    def _text(self, tokens: tuple[Token, ...]) -> int:
        """The place among the page's texts of a sequence of tokens that are queries or keys."""
        if tokens not in self._texts:
            between = list(gaps(tokens, self.prompt.text if tokens == self.prompt.tokens else None))
            flags = [
                _SPECIAL * token.special + _GENERATED * token.generated + _LATER_PIECE * later
                for token, later in zip(tokens, later_pieces(tokens), strict=True)
            ]
            grids = image_grids(tokens) if self.prompt.picture is not None else []
            words = [token.text if token.text.strip(" ") else "␣" * len(token.text) for token in tokens]
            self._texts[tokens] = {
                "numbers": [token.index for token in tokens],
                "tokens": list(map(written, words)),
                "gaps": [visible(gap).replace("␊", "\n") for gap in between],
                "flags": flags,
                "grid": grids[0].cells.tolist() if grids else None,
            }
        return list(self._texts).index(tokens)


def title(recording: Recording) -> str:
    """The page's title: the text in a line, cut where it is long; without a text its files' names, or the model's."""
    prompt = recording.prompt
    text = prompt.text if prompt.generated is None else prompt.text[: prompt.generated.start]
    words = " ".join(visible(text.replace("\n", " ")).split())
    words = words or ", ".join(visible(file) for file in prompt.files.values()) or model_of(recording)
    return cut(words, _LONGEST_TITLE)


def start(recording: Recording, outs: Sequence[StandOut], links: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The head to begin with, by indices, and its cell: of the story, a link, a kind, else of the last word."""
    story = kept_story(recording.told)
    if story is not None and (head := main_head(story)) and (cell := head_cell(recording, story, head)):
        return cell
    if links:
        return links[0]
    queries = [layer.queries for layer in recording.layers]
    towers = {tokens for tokens in queries if any(token.row is not None for token in tokens)}
    towers &= {recording.prompt.tokens} if story is not None else towers  # words beside the image, where they are told
    seen = [at for at, tokens in enumerate(queries) if not towers or tokens in towers]
    words = (at for at, token in enumerate(queries[seen[0]]) if not token.special and token.row is None)
    place = next((_cell(out) for out in outs if out.call in seen), (seen[0], 0, max(words, default=0)))
    row = story["rows"][-1] if story is not None and towers else whole_row(queries[place[0]])
    return place if row is None else (*place[:2], row)


def _cell(out: StandOut) -> tuple[int, ...]:
    return (out.call, out.at, *(() if out.strongest is None else out.strongest[:2]))


def _families(outs: Sequence[StandOut], summaries: Sequence[Summary]) -> Iterator[Line]:
    """A line for each kind of head that stands out, with the first of them; how many others there are, by kind."""
    for heads in families_of(outs):
        kind = heads[0].kind
        line = [{"text": f"{kind.words} {len(heads)}"} | _does(kind, not heads[0].is_judged), {"text": kind.does}]
        for out in heads[:HEAVIEST]:
            name = head_name({"stream": summaries[out.call].place.stream, "layer": out.layer, "head": out.head})
            line.append({"text": f"{name} {out.weight:.2f}", "cell": _cell(out)})
        yield line
    others = ({"text": words} | _does(kind, perhaps) for words, kind, perhaps in counts(summaries, outs))
    yield [{"text": "others" if outs else "no head stands out:"}, *others]


def _does(kind: Kind, perhaps: bool) -> dict[str, Any]:
    """What heads of a kind do, in words, by a letter, and by a colour; nothing of a head of none."""
    letter, color = look_of(perhaps, kind)[0], look_of(False, kind)[1]
    colour = [f"color-mix(in srgb, {color} 40%, var(--pane))", "var(--fore)"] if perhaps else _inked(Color.parse(color))
    look = {"letter": letter} | ({} if letter in ("", "·") else {"colour": colour})
    return {"words": "" if kind is NO_KIND else kind.does} | look


def _inked(color: Color) -> list[str]:
    """A colour, and black or white, whichever can be read on it."""
    return [(rgb := color.get_truecolor()).hex, "#000" if is_light(rgb) else "#fff"]


def model_of(recording: Recording) -> str:
    """The name of the model that a recording is of, without its folder."""
    return visible(model_name(str(recording.about.get("model", ""))))


def _about(recording: Recording) -> list[str]:
    """What a page says of a recording: the model, its number type, and how many layers, heads and tokens there are."""
    source, layers, written = recording.about, recording.layers, recording.prompt.generated
    dtype = [visible(str(source["dtype"]))] if runs_model(source) else []
    blocks = len({(layer.place.stream, layer.place.layer) for layer in layers})
    sizes = f"{counted(blocks, 'layer')}, {counted(sum(layer.h for layer in layers), 'head')}"
    own = [] if written is None else [f"{counted(written.tokens, 'token')} of them written by the model"]
    return [model_of(recording), *dtype, sizes, counted(len(recording.prompt.tokens), "token"), *own]
