"""A part of a scan: the numbers of a shard's documents as a table, a row for each document and head.

Every row has `document` (its number among all records, from 0), `piece` (0, 1 ... where it was cut), `file`, `record`
(from 1), `tokens`, the head (`stream`, `module`, `call`, `layer`, `head`, `kv_head`) and the `NUMBERS` in float32, null
where the document has none. A document's first row alone has its `text`, and where its tokens start and end in it.
The file's first row has in `sums` that by which heads are named. Its metadata say what part of which scan it is.
"""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from attn_cli.prompt import EncodedText
from attn_cli.scans.numbers import NUMBERS, PEAK, BatchCollector, ModuleNumbers, NotFiniteError
from attn_cli.scans.texts import ScanOptions, Shard, texts_of
from attn_cli.sources.batches import batches_by_length
from attn_cli.sources.corpora import Document, arrow

_TEXT = ("document", "piece", "file", "record", "tokens")
PLACE = ("stream", "module", "call", "layer", "head", "kv_head")
_REJECT = {"document": "number", **{name: name for name in ("piece", "file", "record", "reason", "detail")}}
_BATCH_TOKENS = 4096  # of a batch with its padding, at most, unless a single text has more
_ALIKE = 1.25  # times the tokens of its shortest text: the most in a batch


def batches_of(lengths: Sequence[int], limit: int = 8) -> list[list[int]]:
    """Texts in batches of similar lengths, as lists of indices; with `limit` 1 each by itself."""
    most = 1 if limit == 1 else max(len(lengths), 1)
    return batches_by_length(lengths, most, tokens=_BATCH_TOKENS, together=1, alike=_ALIKE)


def scan_shard(source: Any, shard: Shard, options: ScanOptions, about: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """The files of a shard's part and, empty for none, of its rejects; `about` goes into the part's metadata."""
    (texts, rejects), done, found = texts_of(source, options, shard.documents), list[int](), list[list[ModuleNumbers]]()
    for batch in batches_of([len(tokens.ids) for _, tokens in texts], source.batch_size):
        while batch:
            encoded = [texts[at][1] for at in batch]
            collector = BatchCollector([texts[at][0].text for at in batch], encoded, options.seed)
            try:
                source.each_encoded(encoded, options.selection, collector)
                found.append(collector.modules())
            except NotFiniteError as error:
                detail = "the model makes numbers of it that are not finite"
                rejects += [texts[batch[at]][0]._replace(reason="not finite", detail=detail) for at in error.args[0]]
                batch = [at for number, at in enumerate(batch) if number not in error.args[0]]
                continue
            done += batch
            break
    modules = [ModuleNumbers.together(parts) for parts in zip(*found, strict=True)]
    order = np.argsort(done, kind="stable")
    table = _table([texts[done[at]] for at in order], modules, order)
    counts = {"records": len(shard.documents), "documents": len(done), "heads": len(table) // max(1, len(done))}
    counts["tokens"] = sum(len(texts[at][1].ids) for at in done)
    about = {**about, "part": shard.number, "content": shard.content, **counts}
    rejects.sort(key=lambda text: (text.number, text.piece))
    columns = {name: [getattr(text, of) for text in rejects] for name, of in _REJECT.items()}
    part = _file(table.replace_schema_metadata({"attn": orjson.dumps(about)}))
    return part, _file(arrow().table(columns)) if rejects else b""


def _table(texts: Sequence[tuple[Document, EncodedText]], modules: Sequence[ModuleNumbers], order: np.ndarray) -> Any:
    pa, places = arrow(), [module.place for module in modules]
    of_text = [(text.number, text.piece, text.file, text.record, len(tokens.ids)) for text, tokens in texts]
    heads = [
        (place.stream, place.name, place.call, place.layer, *head)
        for place in places
        for head in zip(place.heads, place.groups, strict=True)
    ]
    at_text, at_head = np.repeat(np.arange(len(texts)), len(heads)), np.tile(np.arange(len(heads)), len(texts))
    columns: dict[str, Any] = {}
    for names, rows, at in ((_TEXT, of_text, at_text), (PLACE, heads, at_head)):
        for number, name in enumerate(names):
            kind = {"document": pa.int64(), "record": pa.int64()}.get(name, pa.int32())
            kind = pa.string() if name in ("file", "stream", "module") else kind
            columns[name] = pa.array([row[number] for row in rows], kind).take(pa.array(at))
    for name in NUMBERS:
        values = np.concatenate([module.values[name] for module in modules])[:, order] if modules else np.zeros(0)
        known = pa.array(np.where(np.isfinite(values), values, np.nan).T.reshape(-1), from_pandas=True)
        columns[name] = known.cast(pa.int32() if name in PEAK[1:] else pa.float32())
    first_row = pa.array(at_text, mask=at_head > 0)
    columns["text"] = pa.array([text.text for text, _ in texts], pa.string()).take(first_row)
    for name in ("starts", "ends"):
        columns[name] = pa.array([getattr(tokens, name) for _, tokens in texts], pa.list_(pa.int32())).take(first_row)
    columns["sums"] = pa.array([_sums(modules), *[None] * (len(at_text) - 1)] if modules else [], pa.binary())
    return pa.table(columns)


def _sums(modules: Sequence[ModuleNumbers]) -> bytes:
    """Sums over documents, and counts of documents, of what kinds are judged by: `[K, heads]` each, as .npz."""
    arrays = {name: np.concatenate([module.sums[name] for module in modules], axis=1) for name in modules[0].sums}
    memory = io.BytesIO()
    np.savez_compressed(memory, **arrays)  # type: ignore[arg-type]
    return memory.getvalue()


def sums_of(file: Any) -> dict[str, np.ndarray]:
    """The sums of a part that has documents, from its Parquet file."""
    with np.load(io.BytesIO(file.read(["sums"])["sums"][0].as_py()), allow_pickle=False) as sums:
        return dict(sums)


def _file(table: Any) -> bytes:
    memory, names = io.BytesIO(), table.column_names
    floats = [name for name in NUMBERS if name in names and name not in PEAK[1:] and len(table[name].unique()) > 1]
    encoding = dict.fromkeys(floats, "BYTE_STREAM_SPLIT")
    encoding |= {f"{name}.list.element": "DELTA_BINARY_PACKED" for name in ("starts", "ends") if name in names}
    plain = [name for name in names if name not in (*floats, "starts", "ends")]
    how = {"compression": "zstd", "use_dictionary": plain, "write_page_checksum": True}
    arrow().parquet.write_table(table, memory, column_encoding=encoding or None, **how)
    return memory.getvalue()
