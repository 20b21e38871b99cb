"""attn compare: one word in two contexts, its vectors before and after attention, and what moved them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attn_cli.arrays import at_least_float32, to_numpy
from attn_cli.call import Call, Place
from attn_cli.errors import InputError
from attn_cli.kernel.definition.heads import expand_groups
from attn_cli.model.blocks import BlockVectors
from attn_cli.model.source import Source
from attn_cli.prompt import Prompt
from attn_cli.selection import Selection
from attn_cli.summaries.answer import Answer, Next, Shape, Table
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.matrix import Matrix, MatrixOf
from attn_cli.text import quoted
from attn_cli.token_syntax import first_place

SHAPE = Shape(
    "attn.compare/3",
    "One word in two contexts: its vectors, and what moved them.",
    {
        "keys": ("layer", "context", "key", "key_token", "weight", "pull"),
        "layers": (
            *("layer", "cosine_before", "cosine_after"),
            *("key1", "key_token1", "pull1", "key2", "key_token2", "pull2"),
        ),
        "heads": ("layer", "head", "change"),
    },
    screen={"layers": ("layer", "cosine_before", "cosine_after", "key_token1", "pull1", "key_token2", "pull2")},
    legend=(
        "before, after: cosine between the word in 1 and in 2",
        "pull: the token's share of what attention adds to the word, before W_O",
    ),
    several_texts=True,
)
_LEAST_PULL, _LEAST_CHANGE = 0.05, 0.005  # of a word, and of a head, that is a finding


@dataclass(frozen=True, eq=False)
class Journey:
    """One word's vectors before and after every block, a row per token of the word, its rows' attention, and pulls."""

    prompt: Prompt
    rows: tuple[int, ...]
    steps: list[BlockVectors] = field(default_factory=list)
    seen: list[tuple[Place, np.ndarray, np.ndarray | None]] = field(default_factory=list)

    def add(self, call: Call) -> None:
        """Take in a layer's attention, unless it is of another stream: the rows' weights `[h, rows, m]`, and pulls."""
        if call.queries != self.prompt.tokens:
            return
        matrix = reduce(call, MatrixOf(rows=self.rows)).part(Matrix)
        assert matrix is not None and matrix.weights is not None
        weights = matrix.weights.astype(np.float64)
        self.seen.append((call.place, weights, pulls_of(weights, call)))

    @property
    def word(self) -> str:
        """The word as it is written in the text."""
        tokens = [self.prompt.tokens[row] for row in self.rows]
        first, last = tokens[0].start, tokens[-1].end
        return tokens[0].text if first is None or last is None else self.prompt.text[first:last]

    def shares(self, step: BlockVectors) -> np.ndarray:
        """The word's weight on each of m tokens in block `step`, mean over heads, and the token's pull: `[2, m]`."""
        for place, weights, pulls in self.seen:
            if (place.layer, place.stream, place.call) == (step.layer, step.stream, step.call):
                mean = weights.mean(axis=(0, 1))
                return np.stack([mean, np.full_like(mean, np.nan) if pulls is None else pulls.mean(axis=0)])
        raise InputError(f"layer {step.layer} shows no attention of the text itself", "choose others with --layer")


def journeys_of(
    source: Source, prompts: Sequence[Prompt], words: Sequence[str], selection: Selection
) -> tuple[list[Journey], tuple[str, ...]]:
    """The journey of a word in each text, picked once or for each, else the one that all share; and notes."""
    words = words or [common_word([prompt.text for prompt in prompts])]
    if len(words) not in (1, len(prompts)):
        raise InputError(f"--word {len(words)} times, for {len(prompts)} texts", "give it once, or once for each text")
    journeys, notes = list[Journey](), list[str]()
    for at, prompt in enumerate(prompts):
        rows, more = first_place(words[at % len(words)], prompt)
        journeys.append(Journey(prompt, tuple(rows)))
        source.follow(prompt, rows, selection, journeys[-1].add, journeys[-1].steps.append)
        notes += more
    return journeys, tuple(notes)


def common_word(texts: Sequence[str]) -> str:
    """The only word that all texts share; InputError where they share none, or several."""
    words = [dict.fromkeys(re.findall(r"[^\W\d][\w']*", text.lower())) for text in texts]
    common = [word for word in words[0] if all(word in others for others in words)]
    if len(common) != 1:
        hint = f"all have {', '.join(common)}: -w {max(common, key=len, default='')}"
        none = "they share no word: give --word once for each text"
        raise InputError("which word? give --word WORD", hint if common else none)
    return common[0]


def pulls_of(weights: np.ndarray, call: Call) -> np.ndarray | None:
    """Each key's share `[r, m]` of the rows' output before W_O: c · z / |z|², with c = weight x value, of sum z."""
    if call.v is None:
        return None
    values = to_numpy(expand_groups(at_least_float32(call.v), call.h)).astype(np.float64)
    output = weights @ values  # [h, r, e]
    along = (weights * (output @ values.swapaxes(1, 2))).sum(axis=0)
    squared = (output**2).sum(axis=(0, 2))[:, None]
    return along / np.where(squared > 0, squared, 1.0)


def comparison_of(*journeys: Journey) -> Answer:
    """One word in two contexts, block by block: its vectors, means over its tokens, and what it attends to."""
    shares = [np.array([journey.shares(step) for step in journey.steps]) for journey in journeys]  # [layers, 2, m]
    before, after = (
        np.array([[getattr(step, name).mean(axis=0) for step in journey.steps] for journey in journeys])
        for name in ("before", "after")
    )  # [2, layers, d]
    layers, keys = [], []
    for at, step in enumerate(journeys[0].steps):
        row = {"layer": step.layer, "cosine_before": cosine(*before[:, at]), "cosine_after": cosine(*after[:, at])}
        for text, (journey, of_text) in enumerate(zip(journeys, shares, strict=True), 1):
            listed = list(_keys(journey, of_text[at]))
            keys += [{"layer": step.layer, "context": text} | key for key in listed]
            strongest = max(listed, key=_strength)
            row |= {f"{name}{text}": strongest[name] for name in ("key", "key_token", "pull")}
        layers.append(row)
    tables = {"keys": keys, "layers": layers, "heads": _differing_heads(*journeys)}
    return Answer(
        SHAPE,
        tuple(_findings(journeys, shares, tables)),
        {name: Table.of(rows) for name, rows in tables.items()},
        {"before": before.swapaxes(0, 1), "after": after.swapaxes(0, 1)},
        next=Next("inspect", (journeys[0].prompt.text,), ("-t", str(journeys[0].rows[0]))),
    )


def _keys(journey: Journey, shares: np.ndarray) -> Iterator[dict[str, Any]]:
    for token, (weight, pull) in zip(journey.prompt.tokens, shares.T.tolist(), strict=True):
        yield {"key": token.index, "key_token": token.text, "weight": weight, "pull": None if np.isnan(pull) else pull}


def _strength(key: Mapping[str, Any]) -> float:
    return float(key["weight"] if key["pull"] is None else key["pull"])


def _findings(
    journeys: Sequence[Journey], shares: Sequence[np.ndarray], tables: Mapping[str, list[dict[str, Any]]]
) -> Iterator[str]:
    """Sentences: how alike the word's vectors are, what pulled them apart, and which heads differ most."""
    layers = tables["layers"]
    words = " and ".join(dict.fromkeys(quoted(journey.word) for journey in journeys))
    first, last = layers[0]["cosine_before"], layers[-1]["cosine_after"]
    finding = f"{words}: {first:.2f} alike going in, {last:.2f} coming out"
    parting = min(layers, key=lambda row: row["cosine_after"] - row["cosine_before"])
    if len(layers) > 1 and last < first:
        finding += f", parting most in layer {parting['layer']}"
    read = [journey.prompt.tokens[: max(journey.rows) + 1] for journey in journeys]
    sees_more = any(of_text[:, 0, len(tokens) :].any() for tokens, of_text in zip(read, shares, strict=True))
    if not sees_more and read[0] == read[1]:
        finding = f"{words} is identical in both: the texts differ only after it"
    yield finding
    best, seen = [], []
    for text, (journey, of_text) in enumerate(zip(journeys, shares, strict=True), 1):
        tokens, after = journey.prompt.tokens, max(journey.rows) + 1
        left_out = {*journey.rows, *(token.index for token in tokens if token.special)}
        others = (key for key in _keys(journey, of_text.mean(axis=0)) if key["key"] not in left_out)
        most = max(others, key=_strength, default=None)
        if most and _strength(most) >= _LEAST_PULL:
            best.append(f"{quoted(most['key_token'])} in {text} ({_strength(most):.2f})")
        if after < len(tokens) and not of_text[:, 0, after:].any():
            seen.append(f"{after} of {len(tokens)} in {text}")
    if best:
        verb = "attends most to" if tables["keys"][0]["pull"] is None else "is pulled most by"
        over = f", mean over {len(layers)} layers" if len(layers) > 1 else ""
        yield f"of the other words, it {verb} {', '.join(best)}{over}"
    moved = [head for head in tables["heads"][:3] if head["change"] >= _LEAST_CHANGE]
    if heads := [f"{head['layer']}.{head['head']} ({head['change']:.2f})" for head in moved]:
        yield f"heads whose row for it moves most: {', '.join(heads)}"
    if seen:
        yield f"later tokens are masked: it sees {' and '.join(seen)}"


def _differing_heads(first: Journey, second: Journey) -> list[dict[str, Any]]:
    """Heads by the share of weight that moves in the word's row; [] where it stands elsewhere in the other text."""
    if len(first.prompt.tokens) != len(second.prompt.tokens) or first.rows != second.rows:
        return []
    heads = []
    for (place, one, _), (_, other, _) in zip(first.seen, second.seen, strict=True):
        changes = np.abs(one.mean(axis=1) - other.mean(axis=1)).sum(axis=1) / 2  # [h]
        for head, change in zip(place.heads, changes.tolist(), strict=True):
            heads.append({"layer": place.layer, "head": head, "change": change})
    return sorted(heads, key=lambda head: -head["change"])


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """The cosine of the angle between two vectors; 0 where one of them has no direction."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    lengths = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / lengths if lengths > 0 else 0.0
