"""The run of a text of which a story is told: looked at once, with its keys and values kept to run rows again."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeGuard

from attn_cli.call import Call, Look
from attn_cli.errors import LoadError
from attn_cli.model.source import Predicting, Source
from attn_cli.prompt import Prompt
from attn_cli.selection import Selection
from attn_cli.summaries.reduce import Reducer, Summary, reduce
from attn_cli.summaries.reducers.keys import DecidingRowsReducer
from attn_cli.summaries.reducers.whole_call import of_whole_call
from attn_cli.summaries.told.story import Story, deciding_rows, tell
from attn_cli.text import decimal_bytes

if TYPE_CHECKING:
    from attn_cli.model.intervention import Experiment

_KEPT = 0.5  # of the free memory, for the keys and values that an experiment keeps


def opened_to_tell(opened: Callable[[bool], Source]) -> Source:
    """A model with its LM head, or without where that can't be loaded: a folder may lack the weights of the head."""
    try:
        return opened(True)
    except LoadError:
        return opened(False)


def can_tell(source: Source) -> TypeGuard[Predicting]:
    """True for a model with a language-model head: of no other it is told what its answer needs."""
    return isinstance(source, Predicting) and source.has_lm_head


def deciding_reducers(call: Call, prompt: Prompt, rows: tuple[int, ...]) -> tuple[Reducer, ...]:
    """The reducers that collect what heads attend to in `rows`, those that choose what comes next, of one call."""
    if call.queries != prompt.tokens or call.keys != prompt.tokens:
        return ()
    return (of_whole_call(DecidingRowsReducer(rows), call),)


def told_run(
    source: Predicting, prompt: Prompt, rows: tuple[int, ...], look: Look, free: int | None
) -> "tuple[Experiment | None, tuple[str, ...]]":
    """Run a prompt so that its rows can run again, with notes; None where the model or free memory forbids it."""
    kept = source.experiment_bytes(len(prompt.tokens))
    if free is not None and kept > free * _KEPT:
        words = f"what comes next is not told: the keys and values of {len(prompt.tokens):,} tokens"
        return None, (f"{words} take {decimal_bytes(kept)}",)
    try:
        return source.experiment(prompt, rows, look=look), ()
    except (LoadError, MemoryError):
        return None, ()


def looked_and_told(
    source: Source,
    prompt: Prompt,
    selection: Selection,
    reducers: Callable[[Call], Sequence[Reducer]],
    free: int | None,
    step: Callable[[], object] = int,
    *,
    tells: bool = True,
) -> tuple[list[Summary], Story | None, tuple[str, ...]]:
    """What reducers make of each call of a text, the story of its answer where it `tells` one, and notes."""
    rows, summaries = deciding_rows(prompt), list[Summary]()

    def visit(call: Call) -> None:
        summaries.append(reduce(call, *reducers(call), *deciding_reducers(call, prompt, rows)))
        step()

    look = Look(selection, visit)
    experiment, notes = told_run(source, prompt, rows, look, free) if tells and can_tell(source) else (None, ())
    if experiment is None or not experiment.visited:
        summaries.clear()
        source.each([prompt], *look)
    return summaries, None if experiment is None else tell(experiment, prompt, summaries), notes
