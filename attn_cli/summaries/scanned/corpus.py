"""What answers on a scan share: names of heads, and the tables of its corpus."""

from collections.abc import Mapping, Sequence
from typing import Any

from attn_cli.summaries.answer import Next, Table, head_choice
from attn_cli.text import counted, excerpt, listed

Row = dict[str, Any]
Place = tuple[str, int, int, str, int]
"""A head: stack (self, encoder ...), layer, number, and module and its run where a layer has several."""

PLACE = ("stream?", "module?", "call?", "layer", "head", "kv_head")
KIND = ("documents", "share", "share_low", "share_high", "weight", "baseline", "control", "certainty")
ESTIMATE = ("document_mean", "low", "high", "standard_deviation", "q05", "q25", "q50", "q75", "q95")
CORPUS = {"corpus": ("folder", "model", "documents", "tokens"), "rejected": ("reason", "count"), "inputs": ("file",)}


def corpus_tables(
    folder: str, model: str, progress: Mapping[str, Any], files: Sequence[str]
) -> tuple[dict[str, Table], str]:
    """The tables `corpus`, `rejected` and `inputs` of a scan, and what they say in a sentence."""
    documents, tokens, reasons = progress["documents"], progress["tokens"], progress["reasons"]
    tables = {
        "corpus": Table.of([{"folder": folder, "model": model, "documents": documents, "tokens": tokens}]),
        "rejected": Table({"reason": list(reasons), "count": list(reasons.values())}),
        "inputs": Table({"file": files}),
    }
    words = f"over {counted(documents, 'document')}, {tokens:,} tokens"
    if lost := sum(reasons.values()):
        named = listed([f"{count:,} {excerpt(reason, 40)}" for reason, count in reasons.items()], 4)
        words += f", {counted(lost, 'record')} not read ({named})"
    return tables, words + (f": {excerpt(listed(files, 3), 60)}" if files else "")


def show_head(folder: str, row: Row) -> Next:
    """The command that shows the head of a row of the scan in `folder`."""
    return Next("scan", ("show", folder), ("--head", head_choice(row)), takes_model=False)
