"""Runs a reducer on a call with its hidden keys put back."""

from attn_cli.call import Call
from attn_cli.kernel.stats.wanted import RowStats, Wanted
from attn_cli.summaries.calls.hidden_keys import HiddenKeys
from attn_cli.summaries.reduce import Part, RowReducer, reduce


class Unhidden:
    """Collects what a reducer collects of a call with no key hidden: in a pass of its own, where some are."""

    def __init__(self, reducer: RowReducer) -> None:
        self.reducer = reducer

    def wanted(self, call: Call) -> Wanted:
        """The row statistics that the reducer wants; none of a call that hides keys."""
        return Wanted() if isinstance(call, HiddenKeys) else self.reducer.wanted(call)

    def part(self, call: Call, stats: RowStats) -> Part:
        """The reducer's part of the whole call."""
        if isinstance(call, HiddenKeys):
            return reduce(call.call, self.reducer).parts[0]
        return self.reducer.part(call, stats)
