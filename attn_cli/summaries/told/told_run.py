"""The run of a text of which a story is told: looked at once, with its keys and values kept to run rows again."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from attn_cli.call import Call, Look
from attn_cli.errors import LoadError
from attn_cli.model.source import Predicting, Source
from attn_cli.prompt import Prompt
from attn_cli.selection import Selection
from attn_cli.summaries.calls.hidden_keys import of_whole_call
from attn_cli.summaries.reduce import Reducer, Summary, reduce
from attn_cli.summaries.reducers.keys import DecidingRowsReducer
from attn_cli.summaries.told.story import Story, deciding_rows, tell
from attn_cli.text import decimal_bytes

_KEPT = 0.5  # of the free memory, for the keys and values that an experiment keeps


def opened_to_tell(opened: Callable[[bool], Source]) -> Source:
    """A model with its LM head, or without where that can't be loaded: a folder may lack the weights of the head."""
    try:
        return opened(True)
    except LoadError:
        return opened(False)


def deciding_reducers(call: Call, prompt: Prompt, rows: tuple[int, ...]) -> tuple[Reducer, ...]:
    """The reducers that collect what heads attend to in `rows`, those that choose what comes next, of one call."""
    if call.queries != prompt.tokens or call.keys != prompt.tokens:
        return ()
    return (of_whole_call(DecidingRowsReducer(rows), call),)


def look_and_tell(
    source: Source,
    prompt: Prompt,
    rows: tuple[int, ...] | None,
    look: Look,
    summaries: Sequence[Summary],
    forget: Callable[[], None],
    free: int | None,
    step: Callable[[int, int], None] = lambda done, count: None,
) -> tuple[Story | None, tuple[str, ...]]:
    """Run a prompt, whose calls `look` sums up: the story of its rows, if model and memory allow one, and notes."""
    experiment, notes = None, tuple[str, ...]()
    if rows is not None and isinstance(source, Predicting) and source.has_lm_head:
        kept = source.experiment_bytes(len(prompt.tokens))
        if free is not None and kept > free * _KEPT:
            words = f"what comes next is not told: the keys and values of {len(prompt.tokens):,} tokens"
            notes = (f"{words} take {decimal_bytes(kept)}",)
        else:
            with suppress(LoadError, MemoryError):
                experiment = source.experiment(prompt, rows, look=look)
    if experiment is None or not experiment.visited:
        forget()
        source.each([prompt], *look)
    return None if experiment is None else tell(experiment, prompt, summaries, step), notes


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
    story, notes = look_and_tell(source, prompt, rows if tells else None, look, summaries, summaries.clear, free)
    return summaries, story, notes
