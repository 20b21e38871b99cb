"""What an answer needs of a source whose model can be run again with something taken from its attention."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from attn_cli.call import Call, Look
from attn_cli.intervention import Experiment, Target
from attn_cli.logit_parts import LogitParts
from attn_cli.prompt import Prompt
from attn_cli.selection import Selection


@runtime_checkable
class Predicting(Protocol):
    """A source whose model says something that interventions can change: `open_source(model, predicts=True)`.

    Tables don't: ask with `isinstance`. `about` is what every source says of itself.
    """

    about: dict[str, Any]

    @property
    def speaks(self) -> bool:
        """Whether the model has a head of words. One that has none is asked for its mean vector, in all rows."""

    def read(self, texts: Sequence[str], pair: str | None = None) -> list[Prompt]:
        """Tokenize the texts, as every source does."""

    def each(self, prompts: Sequence[Prompt], selection: Selection, visit: Callable[[Call], None]) -> None:
        """Call `visit` with the attention calls of the chosen layers, as every source does."""

    def experiment(
        self,
        prompt: Prompt,
        rows: Sequence[int] | None = None,
        *,
        everywhere: bool = False,
        mean: bool = False,
        earliest: int | None = None,
        look: Look | None = None,
    ) -> Experiment:
        """Run the prompt once, plainly; the experiment then makes interventions.

        rows        the rows in which interventions hold; None for those that choose: of what was generated, else the
                    last one. Encoders take all rows
        everywhere  all rows
        mean        silence a head to its mean output over all other rows, not to 0
        earliest    the first row that interventions will name, where it is before these: keys and values are kept for
                    runs from there on, too
        look        what is looked at while the model runs plainly; `looked` says whether it was

        Raises InputError for rows that the text doesn't have, and for a mean over fewer than 16 rows.
        """

    def logit_parts(self, prompt: Prompt, target: Target) -> LogitParts:
        """What each head adds by itself to the logit of the target, less the mean logit, in one plain run.

        Raises LoadError, with the check that failed, where the logit is no plain sum of what heads write.
        """
