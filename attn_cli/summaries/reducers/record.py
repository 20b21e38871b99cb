"""Recordings: what a model leaves behind when it reads a text, or queries and keys that any program computed."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from attn_cli.arrays import Array, is_torch, itemsize
from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call, Place
from attn_cli.errors import InputError
from attn_cli.kernel.definition.mask import causal
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.stats.wanted import RowStats, Wanted
from attn_cli.model.source import Source
from attn_cli.prompt import Prompt, Token
from attn_cli.recording import RecordedLayer, Recording
from attn_cli.recording.layer import kept
from attn_cli.recording.rules import rule_in_numpy
from attn_cli.selection import ALL, Selection
from attn_cli.summaries.calls.read_shares import key_head_norms
from attn_cli.summaries.reduce import Part, Reducer, Summary, reduce, with_part
from attn_cli.summaries.reducers.heads import HeadStatistics
from attn_cli.summaries.reducers.keys import ReceivedShares
from attn_cli.summaries.reducers.kinds.reducer import HeadKindsReducer, residual_lengths_of
from attn_cli.summaries.told.story import Story, kept_name, looked_and_told
from attn_cli.text import counted, excerpt

Layers = Mapping[int, Array] | Sequence[Array] | Array
Label = str | int | Token
_FLOATS = ("bfloat16", "float16", "float32", "float64")


@dataclass(frozen=True, eq=False)
class Recorded(Part):
    """One layer's attention as a recording keeps it, for a file; it has no rows of data and no arrays."""

    name: ClassVar[str] = "recorded"

    layer: RecordedLayer


class MemoryBudget:
    """The memory for a recording's queries and keys: half of the free bytes; no limit where `free` is None."""

    def __init__(self, free: int | None = None) -> None:
        self.size = self.left = None if free is None else free // 2
        self.asked, self.left_out = 0, set[int]()

    def take(self, size: int, layer: int) -> bool:
        """Take `size` bytes for a layer, and return True; False, and nothing is taken, where fewer are left."""
        self.asked += size
        if self.left is None:
            return True
        if size > self.left:
            self.left_out.add(layer)
            return False
        self.left -= size
        return True


class Record:
    """Makes `Recorded` of a call, with q and k while `budget` has memory, or the scores or weights that it shows."""

    def __init__(self, budget: MemoryBudget | None = None) -> None:
        self.budget = budget or MemoryBudget()
        self.heads, self.received = HeadStatistics(), ReceivedShares()

    def wanted(self, call: Call) -> Wanted:
        """A request for what is recorded; an empty one for a call that comes from a recording."""
        if isinstance(call, RecordedLayer):
            return Wanted()
        return self.heads.wanted(call) | self.received.wanted(call) | Wanted(moments=("logsumexp", "masked"))

    def part(self, call: Call, stats: RowStats) -> Recorded:
        """The call as a layer of a recording, for use without the model: its statistics, its rule (scale, mask ...)."""
        if isinstance(call, RecordedLayer):
            return Recorded(call)
        heads, norms = self.heads.part(call, stats), key_head_norms(call)
        operands, lengths = operands_of(call), residual_lengths_of(call)
        size = sum(itemsize(x) * math.prod(x.shape) for x in operands.values())
        fits = self.budget.take(size, call.place.layer)
        cells: dict[str, Any] = {name: kept(x) for name, x in operands.items() if fits}
        assert stats.logsumexp is not None and stats.masked is not None
        layer = RecordedLayer(
            call.place,
            call.queries,
            call.keys,
            rule_in_numpy(call),
            np.where(stats.masked, -np.inf, stats.logsumexp).astype(np.float32),
            dict(heads.statistics),
            self.received.part(call, stats).weights.astype(np.float32),
            None if norms is None else norms.astype(np.float32),
            residual_norms=None if lengths is None else np.asarray(lengths, np.float32),
            shows_scores=isinstance(call, AttentionCall) or getattr(call, "scores", None) is not None,
            **cells,
        )
        return Recorded(layer)


def operands_of(call: Call) -> dict[str, Array]:
    """The arrays of a layer's cells: q and k; of a model that doesn't show these, its scores, or else its weights."""
    if isinstance(call, AttentionCall):
        return {"q": call.q, "k": call.k}
    scores = getattr(call, "scores", None)
    return {"seen": call.like if scores is None else scores}


def record(
    source: Source,
    text: str | Prompt,
    *,
    selection: Selection = ALL,
    pair: str | None = None,
    budget: MemoryBudget | None = None,
    step: Callable[[], object] = int,
    trial: Callable[[int, int], None] = lambda done, count: None,
    tells: bool = False,
) -> Recording:
    """One pass over a text, and a second `pair`, as a `Recording`; `tells`: with the story of its answer."""
    prompt = source.read([text], pair)[0] if isinstance(text, str) else text
    reducers: list[Reducer] = [Record(budget), *([HeadKindsReducer()] if tells else [])]
    looked = source, prompt, selection, lambda call: reducers, None if budget is None else budget.size, step, trial
    return told_recording(source, prompt, *looked_and_told(*looked, tells=tells)[:2])


def told_recording(source: Source, prompt: Prompt, summaries: Sequence[Summary], story: Story | None) -> Recording:
    """What `Record` kept of each call of a text, and the story of its answer."""
    told = None if story is None else {kept_name(story["rows"]): story}
    return Recording(dict(source.about), prompt, tuple(part.layer for _, part in with_part(summaries, Recorded)), told)


def recorded(call: Call) -> RecordedLayer:
    """One layer's attention as a recording keeps it: queries and keys, head statistics."""
    part = reduce(call, Record()).part(Recorded)
    assert part is not None
    return part.layer


def recording_of(
    q: Layers,
    k: Layers,
    v: Layers | None = None,
    *,
    rule: Rule | Callable[[int], Rule | None] | None = None,
    tokens: Sequence[Label] | None = None,
    model: str = "arrays",
) -> Recording:
    """A recording of queries and keys that any program computed, to be explored without a model.

    q, k, v  by layer `[h, n, d]`, `[g, m, d]` and `[g, m, e]`: h query heads, g key heads, which divide h, values e
             wide; the queries are the last n of m. One array, a list of layers, or a mapping from layer numbers
    """
    given: dict[str, Mapping[int, Array]] = {
        name: x if isinstance(x, Mapping) else dict(enumerate([x] if len(getattr(x, "shape", ())) == 3 else x))
        for name, x in (("q", q), ("k", k), ("v", v))
        if x is not None
    }
    queries, keys, values = (given.get(name, {}) for name in "qkv")
    if not queries or set(queries) != set(keys) or not set(values) <= set(keys):
        said = ", ".join(f"{name} of {excerpt(str(sorted(of)), 40)}" for name, of in given.items())
        raise InputError(f"q and k are not of the same layers: {said}", "give both for each layer")
    labels = None if tokens is None else tuple(_token(at, label) for at, label in enumerate(tokens))
    layers: list[RecordedLayer] = []
    dtype = ""
    for number in sorted(queries):
        arrays = {name: of[number] for name, of in given.items() if number in set(of)}
        call = _given_call(number, arrays, rule(number) if callable(rule) else rule, labels)
        labels, dtype = call.keys, dtype or str(call.q.dtype).rpartition(".")[2]
        layer = recorded(call)
        layers.append(layer if "v" in arrays else replace(layer, value_norms=None))
    about = {"model": model, "type": "arrays", "revision": None, "dtype": dtype, "device": "cpu"}
    return Recording(about, Prompt("", layers[0].keys), tuple(layers))


def _token(at: int, label: Label) -> Token:
    if isinstance(label, Token):
        return replace(label, index=at)
    return Token(at, label) if isinstance(label, str) else Token(at, str(int(label)), int(label))


def _given_call(
    number: int, arrays: Mapping[str, Array], rule: Rule | None, labels: tuple[Token, ...] | None
) -> AttentionCall:
    """The attention of layer `number`, whose queries are the last of its keys; InputError for shapes of none."""
    arrays = {name: x if is_torch(arrays["q"]) else np.asarray(x) for name, x in arrays.items()}
    for name, x in arrays.items():
        if x.ndim != 3 or str(x.dtype).rpartition(".")[2] not in _FLOATS or 0 in x.shape:
            expected = "[heads, queries, width]" if name == "q" else "[key heads, keys, width]"
            line = f"layer {number}: {name} is {list(x.shape)} of {x.dtype}"
            raise InputError(line, f"{expected} of floats was expected")
    q, k = arrays["q"], arrays["k"]
    v = arrays.get("v", k[..., :1])
    (h, n, d), (g, m, width) = q.shape, k.shape
    if h % g or width != d or n > m or tuple(v.shape[:2]) != (g, m):
        shapes = ", ".join(f"{name} {list(x.shape)}" for name, x in arrays.items())
        expected = "q [h, n, d], k [g, m, d], v [g, m, e]: g divides h, the queries are the last n of m"
        raise InputError(f"layer {number}: {shapes} are not of one attention", expected)
    if labels is not None and len(labels) != m:
        line = f"{counted(len(labels), 'token')} for {counted(m, 'key')} of layer {number}"
        raise InputError(line, "give one for each key")
    keys = labels or tuple(_token(at, at) for at in range(m))
    place = Place(number, f"layer {number}", tuple(range(h)), tuple(head // (h // g) for head in range(h)))
    return AttentionCall(q, k, v, rule or Rule(d**-0.5, mask=causal(m - n)), place, keys[m - n :], keys)
