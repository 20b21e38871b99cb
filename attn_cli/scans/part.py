"""A part of a scan: the numbers of a shard's documents as a table, a row for each document and head.

Every row has `document` (its number among all records, from 0), `piece` (0, 1 ... where it was cut), `file`, `record`
(from 1), `tokens`, the head (`stream`, `layer`, `head`, `kv_head`, `module`, `call`) and the `NUMBERS` in float32, null
where the document has none. A document's first row alone has its `text`, and where its tokens start and end in it.
The file's metadata under "attn" says what part of which scan it is; "kinds" has the sums by which heads are named.
"""

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from attn_cli.prompt import EncodedText
from attn_cli.scans.numbers import NUMBERS, PEAK, BatchCollector, ModuleNumbers, NotFiniteError
from attn_cli.scans.texts import REJECT, ScanOptions, Shard, ShardTexts
from attn_cli.sources.batches import batches_by_length
from attn_cli.sources.corpora import Document
from attn_cli.sources.corpora.records import arrow

PLACE = ("stream", "layer", "head", "kv_head", "module", "call")
JUDGED = ("non_sink_weight", "row_support", "control", "baseline", "rows", "control_rows")
_BATCH_TOKENS = 4096  # of a batch with its padding, at most, unless a single text has more
_ALIKE = 1.25  # times the tokens of its shortest text: the most in a batch
Row = dict[str, Any]


def batches_of(lengths: Sequence[int], limit: int = 8) -> list[list[int]]:
    """Texts in batches of similar lengths, as lists of indices; with `limit` 1 each by itself."""
    most = 1 if limit == 1 else max(len(lengths), 1)
    return batches_by_length(lengths, most, tokens=_BATCH_TOKENS, together=1, alike=_ALIKE)


def scan_shard(source: Any, shard: Shard, options: ScanOptions, about: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """The files of a shard's part and, empty for none, of its rejects; `about` goes into the part's metadata."""
    reader = ShardTexts(source, options)
    texts, done, found = reader.encoded(shard.documents), list[int](), list[list[ModuleNumbers]]()
    for batch in batches_of([len(tokens.ids) for _, tokens in texts], source.batch_size):
        while batch:
            encoded = [texts[at][1] for at in batch]
            collector = BatchCollector([texts[at][0].text for at in batch], encoded, options.seed)
            try:
                source.each_encoded(encoded, options.selection, collector)
            except NotFiniteError as error:
                for at in error.texts:
                    reader.reject(
                        texts[batch[at]][0], "not finite", "the model makes numbers of it that are not finite"
                    )
                batch = [at for number, at in enumerate(batch) if number not in error.texts]
                continue
            found.append(collector.modules())
            done += batch
            break
    modules = [ModuleNumbers.together(parts) for parts in zip(*found, strict=True)]
    order = np.argsort(done, kind="stable")
    table = _table([texts[done[at]] for at in order], modules, order)
    about = {
        **about,
        "part": shard.number,
        "content": shard.content,
        "tokens": sum(len(texts[at][1].ids) for at in done),
    }
    about |= {"documents": len(done), "heads": len(table) // max(1, len(done)), "records": len(shard.documents)}
    rejects = sorted(reader.rejects, key=lambda row: (row["document"], row["piece"]))
    columns = {name: [row[name] for row in rejects] for name in REJECT}
    part = _file(table.replace_schema_metadata({"attn": orjson.dumps(about), "kinds": _sums(modules)}))
    return part, _file(arrow().table(columns)) if rejects else b""


def _table(texts: Sequence[tuple[Document, EncodedText]], modules: Sequence[ModuleNumbers], order: np.ndarray) -> Any:
    pa = arrow()
    heads = [
        (module.place.stream, module.place.layer, head, group, module.place.name, module.place.call)
        for module in modules
        for head, group in zip(module.place.heads, module.place.groups, strict=True)
    ]
    h, documents = len(heads), [document for document, _ in texts]

    def each(values: Sequence[Any], kind: Any) -> Any:
        """A column with a value for each document, in all of its rows."""
        return pa.array(values, kind).take(pa.array(np.repeat(np.arange(len(values)), h)))

    def once(values: Sequence[Any], kind: Any) -> Any:
        """A column with a value for each document, in its first row."""
        first = np.arange(len(values) * h) % max(h, 1) == 0
        return pa.array(values, kind).take(pa.array(np.arange(len(first)) // max(h, 1), mask=~first))

    names = pa.dictionary(pa.int32(), pa.string())
    columns = {
        "document": each([document.number for document in documents], pa.int64()),
        "piece": each([document.piece for document in documents], pa.int32()),
        "file": each([document.file for document in documents], pa.string()).dictionary_encode(),
        "record": each([document.record for document in documents], pa.int64()),
        "tokens": each([len(tokens.ids) for _, tokens in texts], pa.int32()),
    }
    for at, name in enumerate(PLACE):
        values = pa.array([head[at] for head in heads], names if name in ("stream", "module") else pa.int32())
        columns[name] = values.take(pa.array(np.tile(np.arange(h), len(texts))))
    for name in NUMBERS:
        values = np.concatenate([module.values[name] for module in modules])[:, order] if modules else np.zeros((0, 0))
        kind = pa.int32() if name in PEAK[1:] else pa.float32()
        columns[name] = pa.array(np.where(np.isfinite(values), values, np.nan).T.reshape(-1), from_pandas=True).cast(
            kind
        )
    columns["text"] = once([document.text for document in documents], pa.string())
    for name in ("starts", "ends"):
        columns[name] = once([getattr(tokens, name) for _, tokens in texts], pa.list_(pa.int32()))
    return pa.table(columns)


def _sums(modules: Sequence[ModuleNumbers]) -> bytes:
    """Sums over documents, and counts of documents, of what kinds are judged by: `[K, heads]` each."""
    arrays: dict[str, np.ndarray] = {}
    for name in JUDGED:
        found = [
            np.broadcast_to(of if of.ndim == 3 else of[:, None], (len(of), len(module.place.heads), of.shape[-1]))
            for module in modules
            for of in [getattr(module.kinds, name)]
        ]
        if found:
            arrays[name] = np.concatenate([np.nansum(each, axis=-1) for each in found], axis=1)
            arrays[f"{name}.count"] = np.concatenate([(~np.isnan(each)).sum(axis=-1) for each in found], axis=1)
    memory = io.BytesIO()
    np.savez_compressed(memory, **arrays)  # type: ignore[arg-type]
    return base64.b64encode(memory.getvalue())


def sums_of(metadata: Mapping[bytes, bytes]) -> dict[str, np.ndarray]:
    """The sums of a part, from its file's metadata; `[]` for a part without a document."""
    with np.load(io.BytesIO(base64.b64decode(metadata[b"kinds"])), allow_pickle=False) as file:
        return dict(file)


def _file(table: Any) -> bytes:
    memory, floats = io.BytesIO(), {*NUMBERS} - {*PEAK[1:]}
    plain = [name for name in table.column_names if name not in floats]
    arrow().parquet.write_table(
        table, memory, compression="zstd", use_dictionary=plain, write_page_checksum=True,
        column_encoding={name: "BYTE_STREAM_SPLIT" for name in table.column_names if name in floats} or None,
    )  # fmt: skip
    return memory.getvalue()
