"""All options of a command on a model, and of a command on a text."""

from dataclasses import dataclass
from typing import ClassVar, Unpack

from attn_cli.cli.kit.options import named as o
from attn_cli.cli.kit.options.model import LoadOptions, LookOptions
from attn_cli.cli.kit.options.output import OutputOptions
from attn_cli.cli.kit.options.text import TextOptions
from attn_cli.errors import InputError
from attn_cli.model.source import Source
from attn_cli.selection import Selection
from attn_cli.selection_syntax import selection_of
from attn_cli.sources import Reading, is_table
from attn_cli.summaries.calls.read_shares import By, Measure


@dataclass(frozen=True, repr=False, eq=False)
class ModelCommandOptions(LoadOptions, OutputOptions, LookOptions):  # the fields of the last base come first
    """The options of every command on a model: layers and heads, output, loading."""

    COMMANDS_OWN_AFTER: ClassVar[str] = "head"

    @property
    def selection(self) -> Selection:
        """The chosen layers and heads."""
        return selection_of(self.layer, self.head)

    def source(self, *, predicts: bool = False, **reading: Unpack[Reading]) -> Source:
        """Open what --model names: a model, a table of word vectors or a recording."""
        return self.open(
            self.model, quiet=self.quiet, verbose=self.says_times, predicts=predicts,
            chosen=self.selection, **reading,
        )  # fmt: skip

    @property
    def chooses_no_head(self) -> bool:
        """True if neither --layer nor --head was given."""
        return self.layer is None and self.head is None

    @property
    def says_times(self) -> bool:
        """Whether the seconds that loading takes are printed on stderr: not here, where there is no --verbose."""
        return False


def measure_of(by: By, *, mean: bool = False, words: bool = False) -> Measure:
    """The measure for --by: weight, value (weight times value norm) or output (its norm after W_O)."""
    if words and by != "weight":
        raise InputError(f"--by {by} and --words at once", "norms of subwords can't be summed; weights can")
    return Measure(by, each=not mean, together=mean)


@dataclass(frozen=True, repr=False, eq=False)
class ReadOptions(LoadOptions, LookOptions, TextOptions):  # the fields of the last base come first
    """The options that say what is read: the text, the model, its layers and heads, and how it is loaded."""


@dataclass(frozen=True, repr=False, eq=False)
class TextCommandOptions(ModelCommandOptions, TextOptions):
    """The options of every command on a text: those on a model, the text, and --verbose."""

    lines: bool = o.reading(False, "--lines", "Read every line of the input as a text of its own.")
    verbose: bool = o.output(False, "--verbose -v", "Report time and memory; heads: list every one.")

    @property
    def says_times(self) -> bool:
        """True if --verbose was given."""
        return self.verbose

    def merges(self, words: bool, *, scores: bool = False, steps: bool = False) -> bool:
        """True if subwords are merged into words: with --words, unless --model is a table of word vectors."""
        if not words or is_table(self.model):
            return False
        if scores:
            raise InputError("--scores and --words at once", "scores of subwords can't be summed; weights can")
        if steps:
            raise InputError("--steps and --words at once", "steps are per token; leave out --words")
        return True
