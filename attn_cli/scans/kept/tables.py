"""The results of a scan as Parquet files, which DuckDB, Polars and pandas read as they are.

Every row but those of `rejected` begins with its head: `stream`, `layer`, `head`, `kv_head`, `module` (its path) and
`call` (0, 1 ... where a module runs several times). Numbers are means over documents; a cut one's pieces each count.

heads       kind is the head's name over all documents, "none", or "not judged"
statistics  low, high: 95 % confidence of the mean, by Student's t; variance: between documents
kinds       rows: queries with a target; non_sink_weight: on targets that are no sink; named: whether the head is
distances   nearest, farthest: tokens from query to key, negative for later keys, null for no end
positions   first, last: places of keys from 0, null for no end
tokens      side "to": keys of rows' largest weights; "from": rows whose largest weight is on no expected sink;
            share: count over rows; exact: false where the vocabulary was too large to count every token
parts       a field or role, and its share of the head's weight
examples    query, key: numbers of tokens; first, last: the record's characters that the model read; whole: whether
            `text` is all of them; query_start .. key_end: characters of `text`; kind "any": no expected sink
blocks      size: documents a block; lists of blocks (first document's number over size), counts and totals
rejected    the first 10,000; scan.json counts all by reason
"""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import numpy as np

from attn_cli.errors import LoadError
from attn_cli.scans.numbers.document_numbers import AT, OF_HEADS, OF_TEXTS, STATISTIC_NAMES
from attn_cli.scans.numbers.examples import EXAMPLE_KINDS
from attn_cli.scans.numbers.ranges import distances, positions
from attn_cli.scans.sums.sums import ModuleSums, Moments, ScanSums
from attn_cli.summaries.reducers.heads import STATISTICS
from attn_cli.summaries.reducers.kinds.reducer import KIND_NAMES, LEAST_ROWS, KindNumbers
from attn_cli.summaries.reducers.kinds.targets import KINDS
from attn_cli.summaries.scanned.student import ci_half_width
from attn_cli.text import visible

Row = dict[str, Any]
_RANKS = {"minimum": 0.0, "q05": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q95": 0.95, "maximum": 1.0}
MOST_TOKENS = 50  # of a head and side


def tables_of(sums: ScanSums, labels: Callable[[list[int]], list[str]]) -> dict[str, Any]:
    """The tables of a scan by name ("heads", "kinds" ...), as `pyarrow.Table`, from the sums over its documents."""
    arrow = _pyarrow()
    makers: dict[str, Callable[[ModuleSums], Iterator[Row]]] = {
        "heads": _heads, "statistics": _statistics, "kinds": _kinds, "distances": _distances,
        "positions": _positions, "tokens": _tokens, "parts": _parts,
        "examples": _examples, "blocks": _blocks,
    }  # fmt: skip
    modules = list(sums.modules.values())
    rows: dict[str, Iterator[Row]] = {name: chain.from_iterable(map(make, modules)) for name, make in makers.items()}
    rows["tokens"] = _labelled(rows["tokens"], labels)
    tables = {name: _table(arrow, name, of_table) for name, of_table in rows.items()}
    poison = (record._asdict() for record in sums.poison.named)
    return tables | {"rejected": _table(arrow, "rejected", poison)}


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise LoadError("scans need pyarrow", "pip install 'attn-cli[scan]'") from None
    return pyarrow


_PLACE = {"stream": "string", "layer": "int32", "head": "int32", "kv_head": "int32", "module": "string",
          "call": "int32"}  # fmt: skip
_MEANS = ("weight_variance", "weight_low", "weight_high", "share_variance", "share_low", "share_high")
_COLUMNS: dict[str, dict[str, str]] = {
    "heads": {"documents": "int64", "kind": "string", **dict.fromkeys(STATISTIC_NAMES, "double")},
    "statistics": {"statistic": "string", "unit": "string", "documents": "int64", "mean": "double",
                   "variance": "double", "standard_error": "double", "low": "double", "high": "double",
                   **dict.fromkeys(_RANKS, "double")},
    "kinds": {"kind": "string", "documents": "int64", "rows": "int64", "weight": "double", "share": "double",
              "non_sink_weight": "double", "baseline": "double", "control": "double", "row_support": "double",
              **dict.fromkeys(_MEANS, "double"),
              "named": "bool"},
    "distances": {"nearest": "int64", "farthest": "int64", "weight": "double", "baseline": "double"},
    "positions": {"first": "int64", "last": "int64", "weight": "double", "baseline": "double"},
    "tokens": {"side": "string", "rank": "int32", "id": "int64", "token": "string", "count": "int64", "rows": "int64",
               "share": "double", "exact": "bool"},
    "parts": {"part": "string", "weight": "double", "baseline": "double"},
    "examples": {"kind": "string", "rank": "int32", "weight": "float", "document": "int64", "piece": "int32",
                 "file": "string", "record": "int64", "whole": "bool", "first": "int64", "last": "int64",
                 "query": "int32", "key": "int32", "query_token": "string", "key_token": "string", "text": "string",
                 "query_start": "int32", "query_end": "int32",
                 "key_start": "int32", "key_end": "int32"},
    "blocks": {"statistic": "string", "size": "int64", "block": "int64s", "count": "int64s", "total": "doubles"},
}  # fmt: skip
_POISON = {"document": "int64", "file": "string", "record": "int64", "piece": "int32", "reason": "string",
           "detail": "string"}  # fmt: skip
TABLES = (*_COLUMNS, "rejected")
_WHOLE = {
    "stream",
    "layer",
    "head",
    "kind",
    "documents",
    "statistic",
    "side",
    "text",
    "token",
    "part",
    "query_token",
    "key_token",
    "query_start",
    "query_end",
    "key_start",
    "key_end",
    "document",
    "piece",
    "record",
    "file",
}  # no row is without them
_NAMES = {"stream", "module", "kind", "statistic", "unit", "side", "reason"}  # of attn's own or of modules


def check_table(name: str, table: Any) -> None:
    """Raise ValueError for a `pyarrow.Table` that is no such table of a scan: types, gaps, odd names, numbers."""
    arrow = _pyarrow()
    for column, kind in _fields(arrow, name):
        if column not in table.column_names or table.schema.field(column).type != kind:
            raise ValueError(f"it has no column {column} of {kind}")
        if column in _WHOLE and table[column].null_count:
            raise ValueError(f"{column} has gaps")
        if arrow.types.is_floating(table.schema.field(column).type) and any(
            not np.isfinite(chunk.drop_null().to_numpy(zero_copy_only=False)).all() for chunk in table[column].chunks
        ):
            raise ValueError(f"{column} holds what is no finite number")  # for which `_table` writes null
        if column in _NAMES and any(visible(each or "") != (each or "") for each in table[column].unique().to_pylist()):
            raise ValueError(f"{column} holds invalid names")


def _table(arrow: Any, name: str, rows: Iterator[Row]) -> Any:
    fields = _fields(arrow, name)
    held = list(rows)
    content = [arrow.array([row[column] for row in held], kind, from_pandas=True) for column, kind in fields]
    return arrow.table(content, schema=arrow.schema(fields))


def _fields(arrow: Any, name: str) -> list[tuple[str, Any]]:
    columns = _POISON if name == "rejected" else _PLACE | _COLUMNS[name]
    types = {"double": arrow.float64(), "float": arrow.float32(), "bool": arrow.bool_(),
             "int64s": arrow.list_(arrow.int64()), "doubles": arrow.list_(arrow.float64())}  # fmt: skip
    return [(column, types.get(kind) or getattr(arrow, kind)()) for column, kind in columns.items()]


def _places(module: ModuleSums) -> Iterator[tuple[int, Row]]:
    place = module.place
    for at, (head, group) in enumerate(zip(place.heads, place.groups, strict=True)):
        yield at, {"stream": place.stream, "layer": place.layer, "head": head, "kv_head": group,
                   "module": place.name, "call": place.call}  # fmt: skip


def judged_kinds(module: ModuleSums) -> KindNumbers:
    """The kind of each head (previous token, induction ...) by its mean weight over documents on a kind's targets."""
    values, baselines = (np.where(x.count > 0, x.mean, np.nan) for x in (module.values, module.baselines))
    weight, share, past, row_support, control = np.split(values[len(STATISTIC_NAMES) :], len(OF_HEADS))  # [K, h]
    (baseline, _, _), totals = np.split(baselines, len(OF_TEXTS)), module.baselines.mean * module.baselines.count
    _, rows, control_rows = np.split(totals, len(OF_TEXTS))
    control[control_rows < LEAST_ROWS] = np.nan
    return KindNumbers(weight, share, past, row_support, control, baseline, rows, control_rows)


def _known(moments: Moments) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    count = moments.count
    mean = np.where(count > 0, moments.mean, np.nan)
    variance = np.where(count > 1, moments.squares / np.maximum(count - 1, 1), np.nan)
    return mean, variance, np.sqrt(variance / np.maximum(count, 1))


def _heads(module: ModuleSums) -> Iterator[Row]:
    mean, _, _ = _known(module.values)
    kinds = judged_kinds(module).kind
    for at, lead in _places(module):
        means = {name: mean[AT[name], at] for name in STATISTIC_NAMES}
        yield lead | {"documents": module.documents, "kind": KIND_NAMES[int(kinds[at])]} | means


def _statistics(module: ModuleSums) -> Iterator[Row]:
    mean, variance, error = _known(module.values)
    width = ci_half_width(variance, module.values.count)
    quantiles = module.quantiles.at(tuple(_RANKS.values()))
    for at, lead in _places(module):
        for number, statistic in enumerate(STATISTICS):
            cell = number, at
            row = quantiles[at * len(STATISTICS) + number]
            yield lead | {
                "statistic": statistic.name, "unit": statistic.unit, "documents": module.values.count[cell],
                "mean": mean[cell], "variance": variance[cell], "standard_error": error[cell],
                "low": mean[cell] - width[cell], "high": mean[cell] + width[cell],
                **dict(zip(_RANKS, row, strict=True)),
            }  # fmt: skip


def _kinds(module: ModuleSums) -> Iterator[Row]:
    kinds = judged_kinds(module)
    mean, variance, _ = _known(module.values)
    width = ci_half_width(variance, module.values.count)
    for at, lead in _places(module):
        for number, kind in enumerate(KINDS):
            of = {what: AT[f"{kind.name}:{what}"] for what in ("weight", "share")}
            numbers = {
                f"{what}_{end}": value
                for what, row in of.items()
                for end, value in (
                    ("variance", variance[row, at]),
                    ("low", mean[row, at] - width[row, at]),
                    ("high", mean[row, at] + width[row, at]),
                )
            }
            yield lead | numbers | {
                "kind": kind.name, "documents": module.values.count[of["weight"], at],
                "rows": round(float(kinds.rows[number])),
                "weight": kinds.weight[number, at], "share": kinds.share[number, at],
                "non_sink_weight": kinds.non_sink_weight[number, at],
                "baseline": kinds.baseline[number], "control": kinds.control[number, at],
                "row_support": kinds.row_support[number, at], "named": bool(kinds.kind[at] == number),
            }  # fmt: skip


def _shares(weight: np.ndarray) -> np.ndarray:
    total = weight.sum(axis=-1, keepdims=True)
    return np.divide(weight, total, out=np.full_like(weight, np.nan), where=total > 0)


def _distances(module: ModuleSums) -> Iterator[Row]:
    weight, baseline = _shares(module.distances.weight), _shares(module.distances.even)
    for at, lead in _places(module):
        for number, (nearest, farthest) in enumerate(distances()):
            if baseline[number] > 0:
                yield lead | {"nearest": nearest, "farthest": farthest, "weight": weight[at, number],
                              "baseline": baseline[number]}  # fmt: skip


def _positions(module: ModuleSums) -> Iterator[Row]:
    weight, baseline = _shares(module.positions.weight), _shares(module.positions.even)
    for at, lead in _places(module):
        for number, (first, last) in enumerate(positions()):
            if baseline[number] > 0:
                yield lead | {"first": first, "last": last, "weight": weight[at, number], "baseline": baseline[number]}


def _tokens(module: ModuleSums) -> Iterator[Row]:
    counts = module.tokens
    exact = not counts.lost.any()
    for at, lead in _places(module):
        for side, of_head in (("to", counts.to[at]), ("from", counts.of_query[at])):
            order = np.argsort(-of_head.astype(np.int64), kind="stable")[:MOST_TOKENS]
            for rank, number in enumerate(order[of_head[order] > 0].tolist(), 1):
                count, rows, token = int(of_head[number]), int(counts.rows[number]), int(counts.ids[number])
                yield lead | {"side": side, "rank": rank, "id": token, "count": count,
                              "rows": rows, "share": count / rows, "exact": exact}  # fmt: skip


def _labelled(rows: Iterator[Row], labels: Callable[[list[int]], list[str]]) -> Iterator[Row]:
    held = list(rows)
    ids = sorted({row["id"] for row in held})
    names = dict(zip(ids, labels(ids), strict=True))
    for row in held:
        yield row | {"token": names[row["id"]]}


def _parts(module: ModuleSums) -> Iterator[Row]:
    parts = module.parts
    for at, lead in _places(module):
        for number, name in enumerate(parts.names):
            weight, baseline = parts.weight[at, number] / parts.rows, parts.even[number] / parts.rows
            yield lead | {"part": name, "weight": weight, "baseline": baseline}


def _examples(module: ModuleSums) -> Iterator[Row]:
    examples = module.examples
    for at, lead in _places(module):
        for kind, name in enumerate(EXAMPLE_KINDS):
            for rank, excerpt in enumerate(examples.excerpt[at, kind]):
                if excerpt is not None:
                    cell = at, kind, rank
                    numbers = {column: getattr(examples, column)[cell]
                               for column in ("weight", "document", "piece", "query", "key")}  # fmt: skip
                    yield lead | {"kind": name, "rank": rank + 1} | numbers | excerpt._asdict()


def _blocks(module: ModuleSums) -> Iterator[Row]:
    blocks = module.blocks
    for at, lead in _places(module):
        for number, statistic in enumerate(STATISTIC_NAMES):
            yield lead | {"statistic": statistic, "size": 2**blocks.step, "block": blocks.number,
                          "count": blocks.count[:, number, at], "total": blocks.total[:, number, at]}  # fmt: skip
