"""A command's plan: the reducers run on each text, and the report made of their parts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from attn_cli.call import Call
from attn_cli.cli.kit.options.hiding import NOTHING_HIDDEN, HidingOptions
from attn_cli.errors import InputError
from attn_cli.prompt import Prompt
from attn_cli.summaries.calls.read_shares import WEIGHTS, By, Measure
from attn_cli.summaries.ranking import Ranking
from attn_cli.summaries.reduce import Reducer, Summary
from attn_cli.summaries.reducers.record import Record
from attn_cli.summaries.report import Report

PickedRows = Sequence[int] | None
"""The picked query rows of a call; None for all of them."""

ReducersFor = Callable[[PickedRows, Call], Sequence[Reducer]]
"""The reducers for some rows of a call; an empty sequence for a call that is not part of the answer."""

MemoryEstimate = Callable[[Prompt, PickedRows], str]
"""A sentence on the memory that a text's rows will take; raises LimitError if that is too much."""


@dataclass(frozen=True)
class CommandPlan:
    """The reducers that a command runs on each text, and how their parts are reported.

    reducers    the reducers for a call
    token       names the query rows (see `token_syntax`), None for all
    hiding      which keys and rows are left out
    words       whether the pieces of words are merged
    measure     what calls must carry beside their weights
    ranking     the order of the answer's rows, None for that of the forward pass
    scale       the colour scale of weights: linear, sqrt, log or row
    memory      estimates memory before the model runs and may raise LimitError; None without a check
    settle      what becomes of the summary of each call as soon as it is made; None: it is kept as it is
    finish      what becomes of each report before it is shown; None: it is shown as it is
    recordable  whether the view may have a recording beside each report
    record      makes what records a call
    tells       whether each report tells the story of its answer, where a model that writes reads one text
    copies      whether each report says which heads copy, where a model that writes reads one text
    """

    reducers: ReducersFor
    token: str | None = None
    hiding: HidingOptions = NOTHING_HIDDEN
    words: bool = False
    measure: Measure = WEIGHTS
    ranking: Ranking | None = None
    scale: str = "linear"
    memory: MemoryEstimate | None = None
    settle: Callable[[Summary], Summary] | None = None
    finish: Callable[[Report], Report] | None = None
    recordable: bool = True
    record: Callable[[], Record] = Record
    tells: bool = False
    copies: bool = False


def measure_of(by: By, *, mean: bool = False, words: bool = False) -> Measure:
    """The measure of --by and --mean; InputError for one that merged words don't have."""
    if words and by != "weight":
        raise InputError(f"--by {by} and --words at once", "norms of subwords can't be summed; weights can")
    return Measure(by, each=not mean, together=mean)
