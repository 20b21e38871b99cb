"""The pass over a text from which the story of its answer is told."""

from attn_cli.call import Call, Look
from attn_cli.cli.kit.stderr.lines import print_notes
from attn_cli.errors import LoadError
from attn_cli.model.intervention import Experiment
from attn_cli.model.source import Predicting, Source
from attn_cli.prompt import Prompt
from attn_cli.sources.memory import free_memory
from attn_cli.summaries.reduce import Reducer
from attn_cli.summaries.reducers.whole_call import Unhidden
from attn_cli.summaries.told.deciding_rows import DecidingRowsReducer
from attn_cli.text import decimal_bytes

_KEPT = 0.5  # of the free memory, for the keys and values that an experiment keeps


def deciding_reducers(call: Call, prompt: Prompt, rows: tuple[int, ...]) -> tuple[Reducer, ...]:
    """The reducers for the rows that decide what comes next; none for a call of another stream than the text's."""
    if call.queries != prompt.tokens or call.keys != prompt.tokens:
        return ()
    return (Unhidden(DecidingRowsReducer(rows)),)


def experiment_on(
    source: Source, prompt: Prompt, rows: tuple[int, ...], look: Look, *, quiet: bool
) -> Experiment | None:
    """The text's run with its keys and values kept, so that the rows that decide can be run again.

    None for a model without an LM head, for a text whose keys and values take half of the free memory, which is noted,
    and where the model can't be run so.
    """
    if not isinstance(source, Predicting) or not source.has_lm_head:
        return None
    kept, free = source.experiment_bytes(len(prompt.tokens)), free_memory()
    if free is not None and kept > free * _KEPT:
        words = f"what comes next is not told: the keys and values of {len(prompt.tokens):,} tokens"
        print_notes([f"{words} take {decimal_bytes(kept)}"], quiet=quiet)
        return None
    try:
        return source.experiment(prompt, rows, look=look)
    except (LoadError, MemoryError):
        return None
