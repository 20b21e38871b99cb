"""attn plane: words as points in the plane before and after attention, by principal components of both together."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from attn_cli.errors import InputError
from attn_cli.model.blocks import BlockVectors
from attn_cli.prompt import Prompt
from attn_cli.summaries.answer import Answer, Next, Shape, Table
from attn_cli.summaries.sinks import over_median
from attn_cli.text import listed, quoted

_COORDINATES = ("before_x", "before_y", "after_x", "after_y")
_SINK = 4.0  # times the usual length of a vector, from where on a token is left out
SHAPE = Shape(
    "attn.plane/2",
    "The words of texts as points, before and after attention.",
    {
        "points": ("context", "index", "token", *_COORDINATES, "moved"),
        "axes": ("axis", "variance_share"),
        "run": ("first_layer", "last_layer", "unit"),
    },
    screen={"points": ("token", "context", *_COORDINATES, "moved"), "axes": ("axis", "variance_share")},
    bars=("moved",),
    legend=("x, y: along the two directions of most variance, of all points before and after",),
    several_texts=True,
)


def plane(prompts: Sequence[Prompt], steps: Sequence[Sequence[BlockVectors]], *, unit: bool = False) -> Answer:
    """The tokens of all prompts (those that stand for text) on the first two principal components."""
    for_text = [[at for at, token in enumerate(prompt.tokens) if not token.special] for prompt in prompts]
    numbered = enumerate(zip(prompts, for_text, strict=True), 1)
    tokens = [(number, prompt.tokens[at]) for number, (prompt, rows) in numbered for at in rows]
    before = np.concatenate([way[0].before[rows] for way, rows in zip(steps, for_text, strict=True)])
    after = np.concatenate([way[-1].after[rows] for way, rows in zip(steps, for_text, strict=True)])
    times = np.fmax(*(over_median(np.linalg.norm(of.astype(np.float64), axis=1)) for of in (before, after)))
    is_sink = (times > _SINK) & (times.size > 2)
    sinks = [f"{quoted(tokens[at][1].text)} {tokens[at][1].index}" for at in np.flatnonzero(is_sink)]
    before, after, tokens = before[~is_sink], after[~is_sink], [tokens[at] for at in np.flatnonzero(~is_sink)]
    if before.shape[1] != after.shape[1]:
        reason = f"vectors have {before.shape[1]} numbers before attention and {after.shape[1]} after it"
        raise InputError(reason, "points of one plane need vectors of one length")
    both = np.concatenate([before, after]).astype(np.float64)
    if unit:
        lengths = np.linalg.norm(both, axis=1, keepdims=True)
        both = both / np.where(lengths > 0, lengths, 1.0)
    shape, (centre, axes, shares) = SHAPE, principal_axes(both)
    if both.shape[1] == 2:
        shape = replace(SHAPE, legend=("x, y: the two numbers of each vector",))
        centre, axes, shares = np.zeros(2), np.eye(2), both.var(axis=0) / max(both.var(axis=0).sum(), 1e-30)
    places = (both - centre) @ axes.T
    before, after = places[: len(before)], places[len(before) :]
    points = {
        "context": [number for number, _ in tokens],
        "index": [token.index for _, token in tokens],
        "token": [token.text for _, token in tokens],
        **dict(zip(_COORDINATES, [*before.T, *after.T], strict=True)),
        "moved": np.linalg.norm(after - before, axis=1),
    }
    tables = {
        "points": Table(points),
        "axes": Table({"axis": ["x", "y"], "variance_share": shares}),
        "run": Table.of([{"first_layer": steps[0][0].layer, "last_layer": steps[0][-1].layer, "unit": unit}]),
    }
    most = max(tables["points"], key=lambda point: point["moved"])
    findings = [f"{quoted(most['token'])} {most['index']} moves most: by {most['moved']:.2f}"]
    if sinks:
        findings.append(f"sinks are left out: {listed(sinks)}, with vectors {times.max():.0f} times as long as usual")
    spans = [float(np.ptp(cloud, axis=0).max()) for cloud in (before, after)]
    if min(spans) < max(spans) / 8 and not unit:
        findings.append("one cloud of points is much larger: vectors of unit length compare better")
    return Answer(shape, tuple(findings), tables, {"axes": axes, "centre": centre}, next=_next(prompts))


def _next(prompts: Sequence[Prompt]) -> Next:
    texts = tuple(prompt.text for prompt in prompts)
    if len(prompts) == 2:
        first, second = ([token.text.lower() for token in of.tokens if not token.special] for of in prompts)
        words = [word for word in first if word.isalpha() and first.count(word) == second.count(word) == 1]
        if words:
            return Next("compare", texts, ("--word", max(words, key=len)))
    return Next("inspect", texts[:1])


def principal_axes(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The mean `[d]` of points `x [n, d]`, their two principal directions `[2, d]`, and their variance shares."""
    centre = x.mean(axis=0)
    _, sizes, directions = np.linalg.svd(x - centre, full_matrices=False)
    axes, shares = np.zeros((2, x.shape[1])), np.zeros(2)
    known = int((sizes**2 > 1e-20 * (sizes**2).sum()).sum())
    for at, direction in enumerate(directions[: min(known, 2)]):
        axes[at] = direction * np.sign(direction[np.abs(direction).round(9).argmax()])
        shares[at] = sizes[at] ** 2 / (sizes**2).sum()
    return centre, axes, shares
