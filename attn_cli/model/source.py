"""Sources: texts in, attention calls out; those that take interventions, and those that know their layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypedDict, Unpack, runtime_checkable

from attn_cli.errors import InputError

if TYPE_CHECKING:  # recordings open without what is known of a model
    from collections.abc import Callable, Sequence

    from attn_cli.call import Look, Visit
    from attn_cli.model.blocks import Arrive, Block
    from attn_cli.model.intervention import Experiment
    from attn_cli.prompt import Prompt
    from attn_cli.selection import PlannedLayer, Selection

_REPEATED = (37, 50, 61)  # three lengths, so that a head of a fixed distance can't pass for one that finds repeats
LONGEST_REPEAT = max(_REPEATED)
_LEAST = 8  # tokens of the longest repeat


def repeat_lengths(longest: int, shortage: str) -> Sequence[int]:
    """How many tokens are written twice in each of three texts: 37, 50 and 61, or fewer; InputError for too few."""
    if longest < _LEAST:
        raise InputError(f"{shortage} for repeated random tokens", "give a text")
    return tuple(min(length, length * longest // LONGEST_REPEAT) for length in _REPEATED)


def about_of(name: str, type: str, dtype: str = "none", device: str = "none") -> dict[str, Any]:
    """What headers and JSON say of a source of this name, or of what a report is about where that is none."""
    return {"model": name, "type": type, "revision": None, "dtype": dtype, "device": device}


class Source(Protocol):
    """What turns texts, `batch_size` at once, into attention calls: a model, a table or a recording."""

    about: dict[str, Any]
    batch_size: int
    unseen: Sequence[Block]  # whose attention the last pass did not show, or that have none

    def read(self, texts: Sequence[str], pair: str | None = None) -> list[Prompt]:
        """The prompt of each text, tokenized; `pair` is a second sentence, read after each; None for none."""

    def repeated(self, seed: int) -> list[Prompt]:
        """Three prompts of random tokens, each run of tokens written twice in a row, on which induction heads show."""

    def planned_layers(self, selection: Selection) -> list[PlannedLayer]:
        """The chosen layers that are expected to have attention, in order, with how many of their heads are chosen."""

    def each(self, prompts: Sequence[Prompt], selection: Selection, visit: Visit, *, projections: bool = False) -> None:
        """Run the prompts: `visit` gets the attention (q, k, v, mask ...) of each chosen layer, for every prompt."""

    def follow(self, prompt: Prompt, rows: Sequence[int], selection: Selection, visit: Visit, arrive: Arrive) -> None:
        """Run one prompt: `visit` gets each chosen layer's attention, `arrive` the residual stream around its block."""


class ExperimentOptions(TypedDict, total=False):
    """How an experiment runs: keyword arguments of `Predicting.experiment`."""

    everywhere: bool  # whether changes hold in all rows
    mean: bool  # whether ablated heads put out their mean over the other rows, in place of 0
    earliest: int | None  # the first row that changes will name, where it comes before the experiment's
    look: Look | None


@runtime_checkable
class Predicting(Source, Protocol):
    """A source whose model predicts, which interventions can change: `open_source(model, predicts=True)`."""

    @property
    def has_lm_head(self) -> bool:
        """True if the model has a language-model head; without one, texts' vectors are compared, not answers."""

    def on_token(self, call: Callable[[int], None]) -> None:
        """From now on call `call` with how many tokens were generated so far, after each one."""

    def written(self, prompt: Prompt, most: int) -> Prompt:
        """The prompt with what the model generates after it, to the end of a sentence; at most `most` tokens."""

    def answered(self, prompt: Prompt, answer: str) -> Prompt:
        """The prompt with `answer` after it, as if the model had written it."""

    def experiment_bytes(self, tokens: int) -> int:
        """The most bytes that an experiment on `tokens` tokens keeps of its baseline run; 0 where that isn't known."""

    def experiment(
        self, prompt: Prompt, rows: Sequence[int] | None = None, **options: Unpack[ExperimentOptions]
    ) -> Experiment:
        """Run the prompt once without changes, as the baseline that interventions are held against."""
