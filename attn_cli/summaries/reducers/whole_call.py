"""Runs a reducer on a call with its hidden keys put back."""

from attn_cli.call import Call
from attn_cli.kernel.stats.wanted import RowStats, Wanted
from attn_cli.summaries.calls.hidden_keys import HiddenKeys
from attn_cli.summaries.reduce import Part, RowReducer, reduce


class Unhidden:
    """Makes a reducer's part of a call with the keys that the user left out put back; that takes a pass of its own.

    Where none are left out it does as that reducer does.
    """

    def __init__(self, reducer: RowReducer) -> None:
        self.reducer = reducer

    def wanted(self, call: Call) -> Wanted:
        """The row statistics that the reducer wants; none of a call with keys left out, which is read again."""
        return Wanted() if isinstance(call, HiddenKeys) else self.reducer.wanted(call)

    def part(self, call: Call, stats: RowStats) -> Part:
        """The reducer's part of the call with no key left out."""
        if isinstance(call, HiddenKeys):
            return reduce(call.call, self.reducer).parts[0]
        return self.reducer.part(call, stats)
