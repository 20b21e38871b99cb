"""Recordings: what a source's model leaves behind when it reads a text."""

from collections.abc import Callable

from attn_cli.call import Call
from attn_cli.model.source import Source
from attn_cli.recording import RecordedLayer, Recording
from attn_cli.selection import ALL, Selection
from attn_cli.summaries.reduce import reduce
from attn_cli.summaries.reducers.record import MemoryBudget, Record, Recorded


def record(
    source: Source,
    text: str,
    *,
    selection: Selection | None = None,
    pair: str | None = None,
    budget: MemoryBudget | None = None,
    step: Callable[[], object] = int,
) -> Recording:
    """One pass over a text as a `Recording`: for each layer queries and keys, head statistics and pooled weights.

    pair       a second text, read after the first; None for none
    budget     the memory for queries and keys: a layer for which it has no room is kept without them; None for no limit
    """
    prompt = source.read([text], pair)[0]
    layers: list[RecordedLayer] = []

    def visit(call: Call) -> None:
        layers.append(call if isinstance(call, RecordedLayer) else recorded(call, budget))
        step()

    source.each([prompt], selection or ALL, visit)
    return Recording(dict(source.about), prompt, tuple(layers))


def recorded(call: Call, budget: MemoryBudget | None = None) -> RecordedLayer:
    """One layer's attention as a recording keeps it: queries and keys, head statistics, pooled weights."""
    part = reduce(call, Record() if budget is None else Record(budget)).part(Recorded)
    assert part is not None
    return part.layer
