"""attn heads --over: a number of every head through the checkpoints of a training run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from attn_cli.fields import COUNT, NUMBER, POSITIVE, TEXT, Field, Rows, each, made
from attn_cli.model.intervention import HeadPlace
from attn_cli.summaries.call_fields import HEAD, LAYER
from attn_cli.summaries.ranking import Ranking
from attn_cli.summaries.report import Answer


class Course(NamedTuple):
    """One head's number, such as its entropy, at each checkpoint of a training run.

    call    which run of its module in one pass, from 0
    values  the numbers in the order of the checkpoints, NaN where there is none
    """

    place: HeadPlace
    call: int
    values: tuple[float, ...]

    @property
    def moved(self) -> float:
        """The number's largest value at any checkpoint less its smallest; NaN if it has none."""
        known = [value for value in self.values if not np.isnan(value)]
        return max(known) - min(known) if known else float("nan")


_HEAD = (
    Field("stream", TEXT, "which attention of the model it is", "place.stream"),
    Field("layer", LAYER.type, LAYER.meaning, "place.layer"),
    Field("head", HEAD.type, HEAD.meaning, "place.head"),
    Field("call", COUNT, "which run of its module in a pass"),
)
FIELDS = (
    Field("column", TEXT, "the number that is followed, by its name in attn heads --json"),
    Field("checkpoints", each(TEXT), "the models, in the order in which they are compared", lambda x: list(x.models)),
    Field("heads", Rows((
        *_HEAD,
        Field("moved", POSITIVE, "largest of its values less the smallest"),
        Field("values", each(NUMBER), "its number at each checkpoint", lambda course: list(course.values)),
    )), "those that move most first", "listed"),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Checkpoints(Answer):
    """One number of every head, called `column` as in attn heads --json, at each checkpoint of a training run.

    models       the checkpoints, in order, as the user named them
    column       the number's name, such as entropy_bits
    courses      the numbers of each head, one per checkpoint
    count        how many heads are listed, by largest less smallest number; None for all
    still_first  whether the heads whose number moves least come first
    """

    name: ClassVar[str] = "checkpoints"
    fields: ClassVar[Sequence[Field]] = FIELDS

    models: tuple[str, ...]
    column: str
    courses: tuple[Course, ...]
    count: int | None = None
    still_first: bool = False

    @cached_property
    def listed(self) -> list[Course]:
        """The `count` heads whose number `column` (entropy, mean weight ...) moves most between checkpoints.

        By largest less smallest; with `still_first` those that move least. Heads without the number come last.
        """
        return Ranking("moved", "move", not self.still_first, self.count).of(self.courses, lambda course: course.moved)

    @cached_property
    def names(self) -> list[str]:
        """The checkpoints' names without their folders; with them where two would be called the same."""
        names = [Path(model).name for model in self.models]
        return names if len(set(names)) == len(names) else list(self.models)

    def records(self) -> Iterator[dict[str, Any]]:
        """One row per listed head and checkpoint: checkpoint, stream, layer, head, call, and the number by its name.

        `stream` is the stack (encoder, cross ...), `call` which run of its module in one pass, from 0; the number is
        that called `column`, such as entropy_bits.
        """
        for course in self.listed:
            head = made(_HEAD, course)
            for name, value in zip(self.models, course.values, strict=True):
                yield {"checkpoint": name, **head, self.column: value}

    def arrays(self) -> dict[str, np.ndarray]:
        """`values` `[heads, checkpoints]` of the number `column` (entropy_bits ...) of the listed heads.

        With `streams`, `layers` and `heads` `[heads]`, which say what head each is. `streams` are the stacks (self,
        encoder, cross ...), `checkpoints` the names.
        """
        return {
            "checkpoints": np.array(self.models),
            "streams": np.array([course.place.stream for course in self.listed]),
            "layers": np.array([course.place.layer for course in self.listed]),
            "heads": np.array([course.place.head for course in self.listed]),
            "values": np.array([course.values for course in self.listed]),
        }
