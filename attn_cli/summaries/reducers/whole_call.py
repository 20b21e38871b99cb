"""What a reducer makes of a call with the keys that the user left out put back."""

from attn_cli.call import Call
from attn_cli.kernel.stats.wanted import RowStats, Wanted
from attn_cli.summaries.calls.hidden_keys import HiddenKeys
from attn_cli.summaries.reduce import Part, Reducer, reduce


def of_whole_call(reducer: Reducer, call: Call) -> Reducer:
    """The reducer itself where the user left no key of `call` out; else one that makes the same from all keys."""
    return _OfWholeCall(reducer) if isinstance(call, HiddenKeys) else reducer


class _OfWholeCall:
    """Makes a reducer's part of a call with the keys that were left out put back; that takes a pass of its own."""

    def __init__(self, reducer: Reducer) -> None:
        self.reducer = reducer

    def wanted(self, call: Call) -> Wanted:
        return Wanted()

    def part(self, call: Call, stats: RowStats) -> Part:
        assert isinstance(call, HiddenKeys)
        return reduce(call.call, self.reducer).parts[0]
