"""The result of a command, as views get it: texts, summaries or an answer, and the source."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING, Any, TypeVar

from attn_cli.display import Displayed
from attn_cli.prompt import Prompt
from attn_cli.summaries.answer import Answer
from attn_cli.summaries.reduce import Kind, Part, Summary, with_part

if TYPE_CHECKING:  # few reports tell of them
    from attn_cli.summaries.told.story import Story
    from attn_cli.summaries.told.word_reads import Reads


Row = TypeVar("Row")


@dataclass(frozen=True)
class Ranking:
    """An order of rows by `column`, rows without the number last; `count` are kept, None for all."""

    column: str
    heading: str
    largest_first: bool
    count: int | None = None

    @property
    def words(self) -> str:
        """The caption of the order, such as "by distance, largest first"."""
        return f"by {self.heading}, {'largest' if self.largest_first else 'smallest'} first"

    def of(self, rows: Sequence[Row], number: Callable[[Row], float]) -> list[Row]:
        """The first `count` rows in the order of what `number` gives for each; ties in the order in which they came."""
        sign = -1 if self.largest_first else 1
        return sorted(rows, key=lambda row: (isnan(x := number(row)), 0.0 if isnan(x) else sign * x))[: self.count]


@dataclass(frozen=True, eq=False)
class Report(Displayed):
    """The answer of `command`, for one text, several that are looked at together, or none."""

    command: str
    source: Mapping[str, Any]
    prompts: tuple[Prompt, ...] = ()
    summaries: tuple[Summary, ...] = ()
    warnings: tuple[str, ...] = ()
    answer: Answer | None = None
    index: int | None = None  # of the text among the lines of a file; None for a single text
    batch: tuple[int, ...] | None = None  # the axes before heads and rows of the user's own matrices
    merged_from: int | None = None  # tokens that were merged into words
    digits: int = 3  # decimals of --steps
    scale: str = "linear"  # of colours: linear, sqrt, log, or row, a linear scale of its own for each row
    ranking: Ranking | None = None
    story: "Story | None" = None  # what comes next, and which words and heads that rests on
    reads: "Reads | None" = None  # what every word attends to, where no mask is causal

    def __post_init__(self) -> None:
        of_texts = (note for prompt in self.prompts for note in prompt.warnings)
        of_calls = (summary.place.note for summary in self.summaries if summary.place.note)
        object.__setattr__(self, "warnings", tuple(dict.fromkeys((*of_texts, *self.warnings, *of_calls))))

    def __repr__(self) -> str:
        return f"Report of attn {self.command}: {len(self.prompts)} texts, {len(self.summaries)} layers"

    @property
    def streams(self) -> list[str]:
        """The streams of its calls, such as self, encoder, cross, in the order of the forward pass."""
        return list(dict.fromkeys(summary.place.stream for summary in self.summaries))

    def parts_of(self, kind: type[Kind]) -> Iterator[tuple[Summary, Kind]]:
        """The results (parts) of class `kind` of all attention calls, each with the summary of its call."""
        return iter(with_part(self.summaries, kind))

    @property
    def parted(self) -> tuple[list[tuple[Part, Summary]], list[tuple[Part, Summary]]]:
        """Two lists of (part, summary of its call), a part being one measured result of a call."""
        parts = [(part, summary) for summary in self.summaries for part in summary.parts]
        first: dict[str, tuple[Part, Summary]] = {}
        for part, summary in parts:
            if part.together:
                first.setdefault(part.name, (part, summary))
        return list(first.values()), [pair for pair in parts if not pair[0].together]

    @property
    def runs_model(self) -> bool:
        """True if its numbers come from a model, and not from a table of vectors or a demonstration."""
        return runs_model(self.source)

    @property
    def unit(self) -> str:
        """The noun for a query and a key: "token", or "word" where tokens were merged."""
        return "token" if self.merged_from is None else "word"

    @property
    def is_overview(self) -> bool:
        """True if a call has several kinds of results, shown in short; False for an answer, a batch, ranked rows."""
        return (
            self.answer is None
            and self.ranking is None
            and self.batch is None
            and any(len({part.name for part in summary.parts}) > 1 for summary in self.summaries)
        )


def runs_model(source: Mapping[str, Any]) -> bool:
    """True if a source, by what it says of itself, is a model: not a table of vectors, nor a demonstration."""
    return source["type"] not in ("table", "demonstration")
