"""A command's plan: the reducers run on each text, and the report made of their parts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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

ReducersFor = Callable[..., Sequence[Reducer]]
"""The reducers for some rows of a call, and where a plan has a `key` for its keys; none for calls left out."""

MemoryEstimate = Callable[[Prompt, PickedRows], str]
"""A sentence on the memory that a text's rows will take; raises LimitError if that is too much."""


@dataclass(frozen=True)
class CommandPlan:
    """What a command computes of each text and how it reports it; reducers turn a layer's attention into results.

    reducers  makes the reducers for the picked rows and one layer's attention call
    token     names the query rows; key the keys: calls that lack them are left out
    memory    estimates memory before the model runs and may raise LimitError; None without a check
    settle    changes a layer's results as soon as they are there, to keep less; None to keep them as they are
    tells     whether each report says what words and heads the model's answer needs, on one text
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
    key: str | None = None


def measure_of(by: By, *, mean: bool = False, words: bool = False) -> Measure:
    """The measure for --by: weight, value (weight times value norm) or output (its norm after W_O)."""
    if words and by != "weight":
        raise InputError(f"--by {by} and --words at once", "norms of subwords can't be summed; weights can")
    return Measure(by, each=not mean, together=mean)
