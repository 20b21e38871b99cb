"""attn plane: words as points in the plane before and after attention, by principal components of both together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np

from attn_cli.errors import InputError
from attn_cli.fields import COUNT, FLAG, NUMBER, SHARE, TEXT, Field, Output, Rows, each
from attn_cli.model.blocks import BlockVectors
from attn_cli.prompt import Prompt, Token
from attn_cli.summaries.report import Answer

_POINT = (
    Field("text", COUNT, "the number of its text, from 0", itemgetter(0)),
    Field("index", COUNT, "its token index", lambda point: point[1].index),
    Field("token", TEXT, "what the text says there", lambda point: point[1].text),
    Field("before", each(NUMBER, "coordinate", 2), "where it is before attention", itemgetter(2)),
    Field("after", each(NUMBER, "coordinate", 2), "where it is after attention", itemgetter(3)),
)
FIELDS = (
    Field("layers", each(COUNT, "block number", 2),
          "the first block, whose input is before, and the last, whose output is after"),
    Field("unit", FLAG, "whether every vector was made 1 long first"),
    Field("variance_shares", each(SHARE, "share of the variance of all points along this axis", 2), "of the two axes",
          "shares"),
    Field("points", Rows(_POINT, "one token"), "all tokens of all texts",
          lambda plane: zip(plane.texts, plane.tokens, plane.before, plane.after, strict=True)),
)  # fmt: skip
OUTPUT = Output("attn.plane/1", "The words of texts as points, before and after attention.", FIELDS, several_texts=True)


@dataclass(frozen=True, eq=False)
class Plane(Answer):
    """Every token of every text as two points in the plane of two principal components: before attention, and after.

    texts, tokens  the number of its text from 0, and the token, for each of n points
    before, after  coordinates of its vector before the first block and after the last `[n, 2]`, on the same axes
    axes           the two directions `[2, d]`, `centre [d]` where they cross, `shares [2]` of the variance along them
    layers         the first block, whose input is before, and the last, whose output is after
    unit           whether vectors were made 1 long first
    """

    name: ClassVar[str] = "plane"
    fields: ClassVar[Sequence[Field]] = FIELDS

    texts: tuple[int, ...]
    tokens: tuple[Token, ...]
    before: np.ndarray
    after: np.ndarray
    axes: np.ndarray
    centre: np.ndarray
    shares: np.ndarray
    layers: tuple[int, int]
    unit: bool = False

    @property
    def outgrown(self) -> bool:
        """True if the points before or after span less than an eighth of the others, as where vectors grow by block."""
        before, after = (float(np.ptp(points, axis=0).max()) for points in (self.before, self.after))
        return min(before, after) < max(before, after) / 8

    def records(self) -> Iterator[dict[str, Any]]:
        """One row per token: text, index, token, and coordinates before_x, before_y, after_x and after_y."""
        for text, token, before, after in zip(
            self.texts, self.tokens, self.before.tolist(), self.after.tolist(), strict=True
        ):
            yield {
                "text": text,
                "index": token.index,
                "token": token.text,
                "before_x": before[0],
                "before_y": before[1],
                "after_x": after[0],
                "after_y": after[1],
            }

    def arrays(self) -> dict[str, np.ndarray]:
        """`before` and `after` `[n, 2]`, the points' `texts` and `tokens` `[n]`, `axes` `[2, d]` and `centre` `[d]`."""
        return {
            "texts": np.array(self.texts),
            "tokens": np.array([token.text for token in self.tokens]),
            "before": self.before,
            "after": self.after,
            "axes": self.axes,
            "centre": self.centre,
            "variance_shares": self.shares,
            "layers": np.array(self.layers),
        }


def plane(prompts: Sequence[Prompt], steps: Sequence[Sequence[BlockVectors]], *, unit: bool = False) -> Plane:
    """The tokens of all prompts (those that stand for text) on the first two principal components."""
    for_text = [[at for at, token in enumerate(prompt.tokens) if not token.special] for prompt in prompts]
    before = np.concatenate([way[0].before[rows] for way, rows in zip(steps, for_text, strict=True)])
    after = np.concatenate([way[-1].after[rows] for way, rows in zip(steps, for_text, strict=True)])
    if before.shape[1] != after.shape[1]:
        raise InputError(
            f"vectors have {before.shape[1]} numbers before attention and {after.shape[1]} after it",
            "points of one plane need vectors of one length",
        )
    both = np.concatenate([before, after]).astype(np.float64)
    if unit:
        lengths = np.linalg.norm(both, axis=1, keepdims=True)
        both = both / np.where(lengths > 0, lengths, 1.0)
    centre, axes, shares = principal_axes(both)
    places = (both - centre) @ axes.T
    return Plane(
        texts=tuple(text for text, rows in enumerate(for_text) for _ in rows),
        tokens=tuple(prompt.tokens[at] for prompt, rows in zip(prompts, for_text, strict=True) for at in rows),
        before=places[: len(before)],
        after=places[len(before) :],
        axes=axes,
        centre=centre,
        shares=shares,
        layers=(steps[0][0].layer, steps[0][-1].layer),
        unit=unit,
    )


def principal_axes(x: np.ndarray, count: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The mean `[d]` of points `x [n, d]`, their first principal directions `[count, d]`, and their variance shares.

    >>> centre, axes, shares = principal_axes(np.array([[0.0, 0.0, 1.0], [0.0, -2.0, 1.0], [0.0, -4.0, 1.0]]))
    >>> centre.tolist(), (axes.round(9) + 0.0).tolist(), shares.round(9).tolist()
    ([0.0, -2.0, 1.0], [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]], [1.0, 0.0])
    """
    centre = x.mean(axis=0)
    _, sizes, directions = np.linalg.svd(x - centre, full_matrices=False)
    axes, shares = np.zeros((count, x.shape[1])), np.zeros(count)
    total = float((sizes**2).sum())
    for at in range(min(count, len(sizes))):
        if sizes[at] ** 2 <= 1e-20 * total or total == 0:
            break
        direction = directions[at]
        largest = int(np.argmax(np.abs(direction).round(9)))
        axes[at] = direction * np.sign(direction[largest])
        shares[at] = sizes[at] ** 2 / total
    return centre, axes, shares
