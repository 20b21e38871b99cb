"""What is said of a call with all its keys, beside reducers that see it without those that are hidden."""

from collections.abc import Sequence

from attn_cli.call import Call
from attn_cli.kernel.walk.band import Band
from attn_cli.summaries.calls.hidden_keys import HiddenKeys
from attn_cli.summaries.reduce import Part, Reducer, reduce


class OfWholeCall:
    """Collects what a reducer collects, in a pass of its own over the call with its hidden keys.

    rows  those of the reducers beside it, so that no more of them are walked than they ask for
    """

    needs_scores = False
    whole_heads = False

    def __init__(self, reducer: Reducer, rows: Sequence[int] | None = None) -> None:
        self.reducer, self.rows = reducer, rows

    def start(self, call: Call) -> None:
        """Walk the whole call."""
        whole = call.call if isinstance(call, HiddenKeys) else call
        (self.part,) = reduce(whole, self.reducer).parts

    def add(self, band: Band) -> None:
        """Nothing: the bands of the call with hidden keys say nothing more."""

    def result(self) -> Part:
        """The reducer's part."""
        return self.part
