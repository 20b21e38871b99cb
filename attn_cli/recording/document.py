"""A recording as an object of JSON and named arrays, and back: what its file holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from attn_cli._version import __version__
from attn_cli.call import Place
from attn_cli.prompt import Prompt
from attn_cli.recording.layer import RecordedLayer
from attn_cli.recording.prompt_document import (
    Tokens,
    TokenTables,
    prompt_document,
    prompt_of_document,
    tables_of_document,
)
from attn_cli.recording.rules import rule_document, rule_of_document
from attn_cli.text import visible

Arrays = Mapping[str, np.ndarray]
# arrays of each layer, where it has them
_MAIN = ("q", "k", "seen", "log_sums", "received", "value_norms", "residual_norms")
SCHEMA = "attn.recording/1"
PICTURE = "picture"
_LONGEST_WORD = 1000  # of names that are shown as they are
_BAD = (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError)


@dataclass(frozen=True, eq=False)
class RecordingContents:
    """A run of a model over one text: each layer's attention, and what was told of rows as JSON, if it was."""

    about: Mapping[str, Any]
    prompt: Prompt
    layers: tuple[RecordedLayer, ...]
    told: Mapping[str, Any] | None = None


class BadDocument(Exception):
    """Raised for a file that is no valid recording; the message names the fault."""


def document_of(recording: RecordingContents) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The JSON of a recording, and its arrays by name, such as 3.q of layer 3; equal ones are stored once."""
    arrays: dict[str, np.ndarray] = {}
    names: dict[bytes, str] = {}

    def put(array: np.ndarray) -> str:
        array = np.ascontiguousarray(array)
        key = blake2b(array.tobytes(), salt=f"{array.dtype}{array.shape}".encode()[:16].ljust(16)).digest()
        name = names.setdefault(key, f"rule.{len(names)}")
        arrays[name] = array
        return name

    tables = TokenTables()
    prompt = prompt_document(recording.prompt, tables)
    if recording.prompt.picture is not None:
        arrays[PICTURE] = recording.prompt.picture
    layers = []
    for at, layer in enumerate(recording.layers):
        for name in _MAIN:
            values = getattr(layer, name)
            if values is not None:
                arrays[f"{at}.{name}"] = values
        arrays[f"{at}.statistics"] = np.array([*layer.statistics.values()]).reshape(len(layer.statistics), layer.h)
        place = layer.place
        layers.append(
            {
                "layer": place.layer,
                **{name: getattr(place, name) for name in ("name", "heads", "groups", "stream", "call", "way")},
                "queries": tables.place(layer.queries),
                "keys": tables.place(layer.keys),
                "statistics": [*layer.statistics],
                "shows_scores": layer.shows_scores,
                "rule": rule_document(layer.rule, put),
            }
        )
    told = {} if recording.told is None else {"told": dict(recording.told)}
    notes = (layer.place.note for layer in recording.layers)
    content = {
        "schema": SCHEMA,
        "attn": __version__,
        "source": dict(recording.about),
        "input": prompt,
        "result": {**tables.document(), "layers": layers, **told},
        "warnings": list(dict.fromkeys((*recording.prompt.warnings, *filter(None, notes)))),
    }
    return content, arrays


def contents_of(content: Mapping[str, Any], arrays: Arrays) -> RecordingContents:
    """The recording that JSON `content` and its named `arrays` describe; BadDocument where they are not one."""
    try:
        result = content["result"]
        tables = tables_of_document(result)
        prompt = prompt_of_document(content["input"], tables, content["warnings"], arrays.get(PICTURE))
        layers = tuple(_layer(at, entry, arrays, tables) for at, entry in enumerate(result["layers"]))
        about, told = content["source"], result.get("told")
        if told is not None and not isinstance(told, dict):
            raise ValueError("what it tells is no object")
        if not isinstance(about, dict) or not {"model", "type", "revision", "dtype", "device"} <= set(about):
            raise ValueError("nothing says which model it is of")
        for name in ("type", "revision", "dtype", "device"):
            _word(name, "" if about[name] is None else about[name])
    except _BAD as error:
        what = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise BadDocument(what) from None
    return RecordingContents(about, prompt, layers, told)


def _word(name: str, value: Any) -> str:
    if not isinstance(value, str) or visible(value) != value or len(value) > _LONGEST_WORD:
        raise ValueError(f"{name} is not a plain string")
    return value


def _layer(at: int, entry: Mapping[str, Any], arrays: Arrays, tables: Sequence[Tokens]) -> RecordedLayer:
    heads, groups = (tuple(map(int, entry[name])) for name in ("heads", "groups"))
    queries, keys = tables[entry["queries"]], tables[entry["keys"]]
    own: dict[str, Any] = {name: arrays.get(f"{at}.{name}") for name in _MAIN}
    numbers, names = arrays[f"{at}.statistics"], entry["statistics"]
    words: dict[str, Any] = {name: _word(name, entry[name]) for name in ("name", "stream", "way")}
    layer = RecordedLayer(
        Place(int(entry["layer"]), heads=heads, groups=groups, call=int(entry["call"]), **words),
        queries,
        keys,
        rule_of_document(entry["rule"], arrays),
        statistics={_word("statistics", name): values for name, values in zip(names, numbers, strict=True)},
        shows_scores=bool(entry["shows_scores"]),
        **own,
    )
    _check(layer, f"layer {entry['layer']}")
    return layer


def _check(layer: RecordedLayer, where: str) -> None:
    """ValueError for arrays whose shapes or types don't fit each other."""
    h, n, m = layer.h, layer.n, layer.m
    q, k, seen = layer.q, layer.k, layer.seen
    g = h if k is None or k.ndim != 3 else k.shape[0]
    if h == 0 or len(layer.place.groups) != h or g == 0 or h % g:
        raise ValueError(f"{where}: {h} heads over {g} key heads")
    if (q is None) != (k is None) or (q is not None and seen is not None):
        raise ValueError(f"{where} has queries without keys")
    d = q.shape[-1] if q is not None and q.ndim else 0
    expected: dict[str, tuple[np.ndarray | None, tuple[int, ...], str]] = {
        "q": (q, (h, n, d), "f2 f4 f8 u2"),
        "k": (k, (g, m, d), "f2 f4 f8 u2"),
        "seen": (seen, (h, n, m), "f4 f8"),
        "log_sums": (layer.log_sums, (h, n), "f4"),
        "received": (layer.received, (h, m), "f4"),
        "residual_norms": (layer.residual_norms, (m,), "f4"),
        "value_norms": (layer.value_norms, (len(layer.value_norms) if layer.value_norms is not None else 0, m), "f4"),
    }
    for name, (values, shape, kinds) in expected.items():
        if values is None and name in ("log_sums", "received"):
            raise ValueError(f"{where} has no {name}")
        if values is not None and (values.shape != shape or values.dtype.str[1:] not in kinds.split()):
            raise ValueError(f"{where}: {name} has shape {values.shape} of {values.dtype}, expected {shape}")
    _check_rule(layer, where)


def _check_rule(layer: RecordedLayer, where: str) -> None:
    """ValueError for a rule that doesn't fit the layer, by its first and last cell."""
    h, n, m = layer.h, layer.n, layer.m
    sink = layer.rule.sink
    if sink is not None and sink.shape != (h,):
        raise ValueError(f"{where}: {sink.shape} sinks for {h} heads")
    if n and m:
        for head in (0, h - 1):
            rule = layer.rule_of(head)
            for i, j in ((0, 0), (n - 1, m - 1)):
                bias = rule.bias_of(i, i + 1, j, j + 1)
                allowed = np.asarray(rule.mask.allowed(np.array([[i]]), np.array([[j]])))
                sizes = [x.shape for x in (bias, allowed) if x is not None]
                if any(len(size) not in (2, 3) or int(np.prod(size)) != 1 for size in sizes):
                    raise ValueError(f"{where}: mask or bias of another size")
