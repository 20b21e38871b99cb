"""Recordings: what a model leaves behind when it reads a text, or queries and keys that any program computed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from attn_cli.arrays import Array, is_torch
from attn_cli.attention_call import AttentionCall
from attn_cli.call import Call, Place
from attn_cli.errors import InputError
from attn_cli.kernel.definition.masks import Causal
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.stats.compiled import numpy_stats
from attn_cli.kernel.stats.wanted import RowStats, Wanted
from attn_cli.model.source import Source
from attn_cli.prompt import Prompt, Token
from attn_cli.recording import RecordedLayer, Recording
from attn_cli.selection import ALL, Selection
from attn_cli.summaries.reduce import Reducer, reduce, with_part
from attn_cli.summaries.reducers.kinds.reducer import HeadKindsReducer
from attn_cli.summaries.reducers.record import MemoryBudget, Record, Recorded
from attn_cli.summaries.told.story import kept_name
from attn_cli.summaries.told.told_run import looked_and_told
from attn_cli.text import counted, excerpt

Layers = Mapping[int, Array] | Sequence[Array] | Array
Label = str | int | Token
_FLOATS = ("bfloat16", "float16", "float32", "float64")


def record(
    source: Source,
    text: str,
    *,
    selection: Selection | None = None,
    pair: str | None = None,
    budget: MemoryBudget | None = None,
    step: Callable[[], object] = int,
    tells: bool = False,
) -> Recording:
    """One pass over a text, and a second `pair`, as a `Recording`; `tells`: with the story of its answer."""
    prompt = source.read([text], pair)[0]
    reducers: list[Reducer] = [Record(budget), *([HeadKindsReducer()] if tells else [])]
    free = None if budget is None else budget.size
    looked = looked_and_told(source, prompt, selection or ALL, lambda call: reducers, free, step, tells=tells)
    layers = tuple(part.layer for _, part in with_part(looked[0], Recorded))
    told = None if looked[1] is None else {kept_name(looked[1]["rows"]): looked[1]}
    return Recording(dict(source.about), prompt, layers, told)


def recorded(call: Call, budget: MemoryBudget | None = None) -> RecordedLayer:
    """One layer's attention as a recording keeps it: queries and keys, head statistics, pooled weights."""
    part = reduce(call, Record() if budget is None else Record(budget)).part(Recorded)
    assert part is not None
    return part.layer


class _GivenCall(AttentionCall):
    """A call of arrays of any library, which compiled code walks in NumPy too: they can be as large as a model's."""

    def compiled_stats(self, wanted: Wanted) -> RowStats | None:
        if is_torch(self.q):
            return super().compiled_stats(wanted)
        return numpy_stats(self.q, self.k, self.v, self.rule, wanted)


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
    given = {name: _by_layer(x) for name, x in (("q", q), ("k", k), ("v", v)) if x is not None}
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


def _by_layer(x: Layers) -> Mapping[int, Array]:
    if isinstance(x, Mapping):
        return x
    return dict(enumerate([x] if len(getattr(x, "shape", ())) == 3 else x))


def _token(at: int, label: Label) -> Token:
    if isinstance(label, Token):
        return replace(label, index=at)
    return Token(at, label) if isinstance(label, str) else Token(at, str(int(label)), int(label))


def _given_call(
    number: int, arrays: Mapping[str, Array], rule: Rule | None, labels: tuple[Token, ...] | None
) -> _GivenCall:
    """The attention of layer `number`, whose queries are the last of its keys; InputError for shapes of none."""
    arrays = {name: x if is_torch(arrays["q"]) else np.asarray(x) for name, x in arrays.items()}
    for name, x in arrays.items():
        if x.ndim != 3 or str(x.dtype).rpartition(".")[2] not in _FLOATS or 0 in x.shape:
            expected = "[heads, queries, width]" if name == "q" else "[key heads, keys, width]"
            raise InputError(
                f"layer {number}: {name} is {list(x.shape)} of {x.dtype}", f"{expected} of floats was expected"
            )
    q, k = arrays["q"], arrays["k"]
    v = arrays.get("v", k[..., :1])
    (h, n, d), (g, m, width) = q.shape, k.shape
    if h % g or width != d or n > m or tuple(v.shape[:2]) != (g, m):
        shapes = ", ".join(f"{name} {list(x.shape)}" for name, x in arrays.items())
        raise InputError(f"layer {number}: {shapes} are not of one attention", "q [h, n, d], k [g, m, d], v [g, m, e]: "
                         "g divides h, the queries are the last n of m")  # fmt: skip
    if labels is not None and len(labels) != m:
        raise InputError(
            f"{counted(len(labels), 'token')} for {counted(m, 'key')} of layer {number}", "give one for each key"
        )
    keys = labels or tuple(_token(at, at) for at in range(m))
    place = Place(number, f"layer {number}", tuple(range(h)), tuple(head // (h // g) for head in range(h)))
    return _GivenCall(q, k, v, rule or Rule(d**-0.5, mask=Causal(m - n)), place, keys[m - n :], keys)
