"""A recording of anybody's queries and keys: another engine's, or those of one's own loop, a layer at a time."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from tempfile import TemporaryFile
from typing import IO

import numpy as np

from attn_cli.arrays import Array, is_torch
from attn_cli.attention_call import AttentionCall
from attn_cli.call import Place
from attn_cli.errors import InputError
from attn_cli.kernel.definition.masks import Causal
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.stats.compiled import numpy_stats
from attn_cli.kernel.stats.wanted import RowStats, Wanted
from attn_cli.prompt import Prompt, Token
from attn_cli.recording import RecordedLayer, Recording
from attn_cli.summaries.answers.record import recorded
from attn_cli.text import counted, excerpt

Layers = Mapping[int, Array] | Sequence[Array] | Array
Label = str | int | Token
_LOW = 0 if sys.byteorder == "little" else 1  # which half of a float32 bfloat16 lacks
_FLOATS = ("bfloat16", "float16", "float32", "float64")


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
    queries, keys, values = _by_layer(q), _by_layer(k), {} if v is None else _by_layer(v)
    if not queries or set(queries) != set(keys) or not set(values) <= set(keys):
        numbers = {name: sorted(x) for name, x in (("q", queries), ("k", keys), ("v", values)) if x or name != "v"}
        said = ", ".join(f"{name} of {excerpt(str(of), 40)}" for name, of in numbers.items())
        raise InputError(f"q and k are not of the same layers: {said}", "give both for each layer")
    labels = None if tokens is None else tuple(_token(at, label) for at, label in enumerate(tokens))
    layers: list[RecordedLayer] = []
    dtype = ""
    with TemporaryFile() as file:
        for number in sorted(queries):
            call = _given_call(number, queries[number], keys[number], values.get(number), rule, labels)
            labels, dtype = call.keys, dtype or str(call.q.dtype).rpartition(".")[2]
            layer = recorded(call)
            norms = layer.value_norms if number in values else None
            layers.append(replace(layer, q=_in_file(layer.q, file), k=_in_file(layer.k, file), value_norms=norms))
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
    number: int,
    q: Array,
    k: Array,
    v: Array | None,
    rule: Rule | Callable[[int], Rule | None] | None,
    labels: tuple[Token, ...] | None,
) -> _GivenCall:
    """The attention of layer `number`, whose queries are the last of its keys; InputError for shapes of none."""
    if not is_torch(q):
        q, k, v = np.asarray(q), np.asarray(k), None if v is None else np.asarray(v)
    for name, expected, x in _checked(q, k, v):
        if x.ndim != 3 or str(x.dtype).rpartition(".")[2] not in _FLOATS or 0 in x.shape:
            raise InputError(
                f"layer {number}: {name} is {list(x.shape)} of {x.dtype}", f"{expected} of floats was expected"
            )
    (h, n, d), (g, m, width) = q.shape, k.shape
    if h % g or width != d or n > m or (v is not None and tuple(v.shape[:2]) != (g, m)):
        shapes = ", ".join(f"{name} {list(x.shape)}" for name, _, x in _checked(q, k, v))
        raise InputError(f"layer {number}: {shapes} are not of one attention", "q [h, n, d], k [g, m, d], v [g, m, e]: "
                         "g divides h, the queries are the last n of m")  # fmt: skip
    if labels is not None and len(labels) != m:
        raise InputError(
            f"{counted(len(labels), 'token')} for {counted(m, 'key')} of layer {number}", "give one for each key"
        )
    keys = labels or tuple(_token(at, at) for at in range(m))
    of_layer = rule(number) if callable(rule) else rule
    of_layer = Rule(d**-0.5, mask=Causal(m - n)) if of_layer is None else of_layer
    groups = tuple(head // (h // g) for head in range(h))
    place = Place(number, f"layer {number}", tuple(range(h)), groups)
    v = k[..., :1] if v is None else v
    return _GivenCall(q, k, v, of_layer, place, keys[m - n :], keys)


def _checked(q: Array, k: Array, v: Array | None) -> Iterator[tuple[str, str, Array]]:
    yield "q", "[heads, queries, width]", q
    yield "k", "[key heads, keys, width]", k
    if v is not None:
        yield "v", "[key heads, keys, width]", v


def _in_file(x: np.ndarray | None, file: IO[bytes]) -> np.ndarray | None:
    """The array in a file without a name, mapped: of many layers memory holds what is looked at."""
    if x is None:
        return None
    if x.dtype == np.float32 and not (x.view(np.uint16)[..., _LOW::2]).any():
        x = x.view(np.uint16)[..., 1 - _LOW :: 2]
    start = file.seek(0, 2)
    file.write(np.ascontiguousarray(x).data)
    file.flush()
    return np.memmap(file, x.dtype, "r", start, x.shape)
