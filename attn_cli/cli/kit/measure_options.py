"""The options that say what cells are measured by: weights, or shares of what is read."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from attn_cli.cli.kit import options as o
from attn_cli.errors import InputError
from attn_cli.summaries.calls.read_shares import MEASURES, Measure
from attn_cli.views.shell_words import command_words


@dataclass(frozen=True)
class MeasureOptions:
    """What cells are measured by, and whether heads are taken together."""

    by: o.By = "weight"
    mean: o.Mean = False

    def measure(self, *, words: bool = False) -> Measure:
        """What the options ask of calls; InputError for an unknown measure, and for one that words don't have."""
        name = next((x for x in MEASURES if x == self.by), None)
        if self.by == "through":
            raise InputError("--by through is what attn top takes", "attn top TEXT --by through")
        if self.by == "written":  # its name in earlier versions
            raise InputError("--by written is called --by output", _renamed(sys.argv[1:]))
        if name is None:
            raise InputError(
                f"--by {self.by!r} is unknown", f"one of {', '.join(MEASURES)}; attn top also takes through"
            )
        if words and name != "weight":
            raise InputError(f"--by {name} and --words at once", "the lengths of pieces don't add up; their weights do")
        return Measure(name, each=not self.mean, together=self.mean)


def _renamed(words: Sequence[str]) -> str:
    """The command line with `--by output`, to paste."""
    line = [word.replace("written", "output") if word == "--by=written" or before == "--by" else word
            for before, word in zip(("", *words), words, strict=False)]  # fmt: skip
    return command_words(line) if line != list(words) else "by='output'"
