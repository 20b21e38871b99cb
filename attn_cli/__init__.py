"""attn: look inside any transformer's attention, from a terminal or from Python.

In a notebook, one line each; what they return shows itself, and has rows and arrays:

    import attn_cli
    attn_cli.inspect("he sat on the river bank", model="gpt2")       the overview
    attn_cli.heads("river bank", model="gpt2").to_pandas()           one row per head, as a data frame
    attn_cli.top("river bank", model="gpt2", token="bank", layers=9)  what "bank" attends to
    attn_cli.matrix("river bank", model="gpt2").arrays["weights"]    [layers, heads, n, m]
    attn_cli.record("he sat on the river bank", model="gpt2")       an interactive page of all heads, kept with .save

A model is a name, a folder, a .gguf file, a recording, or (model, tokenizer) of transformers. Below these lines, the
library that the commands are made of:

    attend(q, k, v, Rule(scale=...))               scaled dot-product attention, every step kept
    open_source("gpt2").each(...)                  a table or a model as a source of attention calls
    capture(model, visit, tokenizer=tokenizer)     the attention of a transformers model in its own forward pass
    reduce(call, TopKeys(5), ...)                  one pass over a call's bands, any number of summaries

Names are imported when they are first used: `import attn_cli` costs nothing, and only models need torch.
`attn guide python` explains it with examples.
"""

from attn_cli._version import __version__

TYPE_CHECKING = False  # typing would be the first import of every start, and Ctrl-C is not heeded before __main__
if TYPE_CHECKING:
    from typing import Any

    from attn_cli.call import AttentionCall
    from attn_cli.errors import AttnError
    from attn_cli.intervention import HeadPlace, Intervention
    from attn_cli.kernel.definition.dense import Attention, attend
    from attn_cli.kernel.definition.masks import Causal, Given, Keys, Window
    from attn_cli.kernel.definition.rule import Rule
    from attn_cli.notebook import Findings, Table, heads, inspect, matrix, record, top
    from attn_cli.prompt import Prompt, Token
    from attn_cli.recording import RecordedLayer, Recording
    from attn_cli.scans.results import ScanResults, open_scan
    from attn_cli.scans.scan import scan
    from attn_cli.selection import Selection
    from attn_cli.sources import open_source
    from attn_cli.sources.huggingface.capture.session import capture
    from attn_cli.summaries.against.change_matrix import change_matrix
    from attn_cli.summaries.against.changed_keys import changed_keys
    from attn_cli.summaries.against.head_changes import head_changes
    from attn_cli.summaries.against.side_by_side import side_by_side
    from attn_cli.summaries.answers.kinds import KindMap, head_kinds
    from attn_cli.summaries.answers.knock import Knock, knock
    from attn_cli.summaries.answers.parts import PartsRead, read_parts
    from attn_cli.summaries.answers.through import Through, through
    from attn_cli.summaries.calls.hidden_keys import HiddenKeys
    from attn_cli.summaries.calls.read_shares import ReadShares
    from attn_cli.summaries.reduce import Summary, reduce
    from attn_cli.summaries.reducers.heads.head_statistics import Heads, HeadStatistics
    from attn_cli.summaries.reducers.matrix import FullMatrix, Matrix
    from attn_cli.summaries.reducers.overall import Overall, OverallKeys
    from attn_cli.summaries.reducers.pooled import PooledMatrix
    from attn_cli.summaries.reducers.received import Received, ReceivedShares
    from attn_cli.summaries.reducers.top import Top, TopKeys
    from attn_cli.summaries.reducers.why import ExplainedKeys, Why
    from attn_cli.summaries.text_parts import TextPart, parts_of

_HOMES = {
    "summaries.against.change_matrix": ("change_matrix",),
    "summaries.against.changed_keys": ("changed_keys",),
    "summaries.against.head_changes": ("head_changes",),
    "summaries.against.side_by_side": ("side_by_side",),
    "call": ("AttentionCall",),
    "errors": ("AttnError",),
    "intervention": ("HeadPlace", "Intervention"),
    "kernel.definition.dense": ("Attention", "attend"),
    "kernel.definition.masks": ("Causal", "Given", "Keys", "Window"),
    "kernel.definition.rule": ("Rule",),
    "prompt": ("Prompt", "Token"),
    "recording": ("RecordedLayer", "Recording"),
    "scans.results": ("ScanResults", "open_scan"),
    "scans.scan": ("scan",),
    "selection": ("Selection",),
    "sources": ("open_source",),
    "sources.huggingface.capture.session": ("capture",),
    "summaries.calls.hidden_keys": ("HiddenKeys",),
    "summaries.answers.kinds": ("KindMap", "head_kinds"),
    "summaries.reducers.heads.head_statistics": ("Heads", "HeadStatistics"),
    "summaries.reducers.matrix": ("FullMatrix", "Matrix"),
    "summaries.reducers.overall": ("Overall", "OverallKeys"),
    "summaries.reducers.pooled": ("PooledMatrix",),
    "summaries.reducers.received": ("Received", "ReceivedShares"),
    "summaries.answers.knock": ("Knock", "knock"),
    "notebook": ("Findings", "Table", "heads", "inspect", "matrix", "record", "top"),
    "summaries.answers.through": ("Through", "through"),
    "summaries.calls.read_shares": ("ReadShares",),
    "summaries.reduce": ("Summary", "reduce"),
    "summaries.reducers.top": ("Top", "TopKeys"),
    "summaries.answers.parts": ("PartsRead", "read_parts"),
    "summaries.text_parts": ("TextPart", "parts_of"),
    "summaries.reducers.why": ("ExplainedKeys", "Why"),
}

__all__ = [
    "Attention",
    "AttentionCall",
    "AttnError",
    "Causal",
    "ExplainedKeys",
    "Findings",
    "FullMatrix",
    "Given",
    "HeadPlace",
    "HeadStatistics",
    "Heads",
    "HiddenKeys",
    "Intervention",
    "Keys",
    "KindMap",
    "Knock",
    "Matrix",
    "Overall",
    "OverallKeys",
    "PartsRead",
    "PooledMatrix",
    "Prompt",
    "ReadShares",
    "Received",
    "ReceivedShares",
    "RecordedLayer",
    "Recording",
    "Rule",
    "ScanResults",
    "Selection",
    "Summary",
    "Table",
    "TextPart",
    "Through",
    "Token",
    "Top",
    "TopKeys",
    "Why",
    "Window",
    "__version__",
    "attend",
    "capture",
    "change_matrix",
    "changed_keys",
    "head_changes",
    "head_kinds",
    "heads",
    "inspect",
    "knock",
    "matrix",
    "open_scan",
    "open_source",
    "parts_of",
    "read_parts",
    "record",
    "reduce",
    "scan",
    "side_by_side",
    "through",
    "top",
]  # fmt: skip


def __getattr__(name: str) -> "Any":
    from importlib import import_module

    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"attn_cli.{home}"), name)
    raise AttributeError(f"module 'attn_cli' has no attribute {name!r}")


def __dir__() -> "list[str]":
    return sorted(__all__)
