"""attn budget: the price of a smaller KV cache, in bits a token of the text's last tokens."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attn_cli.call import Look
from attn_cli.errors import InputError
from attn_cli.intervention import NoiseFloor, RunMode
from attn_cli.kv_cache import KeyHead
from attn_cli.prompt import Prompt
from attn_cli.selection import ALL, Selection
from attn_cli.source import Predicting
from attn_cli.summaries.budget.fields import FIELDS
from attn_cli.summaries.budget.scored_text import FEWEST, ScoredText, scored_text
from attn_cli.summaries.budget.windows import CachedHead, FarWeights, KeptKeys, cached_heads, default_window
from attn_cli.summaries.fields import Field
from attn_cli.summaries.report import Answer

MOST_PASSES = 18
"""Baseline runs that windows of all key heads may take: fewer tokens are scored where there are more heads."""


@dataclass(frozen=True)
class PricedHead:
    """A key head and what it costs to leave its rows a window.

    bits           bits a token lost
    weight_behind  the mean weight of keys behind the window, with none; None where it was not seen
    """

    cached: CachedHead
    bits: float
    weight_behind: float | None

    @property
    def place(self) -> KeyHead:
        """Its layer and number."""
        return self.cached.place


@dataclass(frozen=True, eq=False)
class Budget(Answer):
    """The price of windows on key heads.

    tokens, scored  of the text, and those of its last tokens whose bits are compared
    bits            bits a scored token with nothing taken away
    noise           bits a token by which untouched copies differ from the baseline
    passes          the work, in baseline runs
    """

    name: ClassVar[str] = "budget"
    fields: ClassVar[Sequence[Field]] = FIELDS
    table: ClassVar[str] = "heads"

    tokens: int
    scored: int
    bits: float
    window: KeptKeys
    noise: float
    passes: float
    run_mode: RunMode
    no_cache_reason: str
    heads: tuple[PricedHead, ...]

    @property
    def least(self) -> float:
        """The least loss that can be told from rounding."""
        return NoiseFloor.FACTOR * self.noise

    def arrays(self) -> dict[str, np.ndarray]:
        """`layers`, `key_heads` (-1 for all heads of a layer), `bits` and `weight_behind` of each key head."""
        unseen = (np.nan if head.weight_behind is None else head.weight_behind for head in self.heads)
        return {
            "layers": np.array([head.place.layer for head in self.heads]),
            "key_heads": np.array([-1 if x.cached.key_heads is None else x.place.head for x in self.heads]),
            "bits": np.array([head.bits for head in self.heads]),
            "weight_behind": np.array(list(unseen)),
        }


@dataclass(eq=False)
class Pricing:
    """A text that ran once, and the key heads that are priced on it."""

    text: ScoredText
    heads: Sequence[CachedHead]
    window: KeptKeys
    far: FarWeights

    @property
    def runs(self) -> int:
        """How many runs follow."""
        return len(self.heads)

    def answer(self, step: Callable[[], None] = lambda: None) -> Budget:
        """Run the text with each thing taken away; `step` is called after each run."""
        text = self.text
        text.step = step
        losses = text.losses([(head.behind(self.window),) for head in self.heads])
        priced = [
            PricedHead(head, float(bits), self.far.of_head(head)) for head, bits in zip(self.heads, losses, strict=True)
        ]
        return Budget(
            len(text.prompt.tokens), text.scored, text.bits, self.window, text.noise, text.passes,
            text.experiment.run_mode, text.experiment.no_cache_reason, tuple(priced),
        )  # fmt: skip


def begin_pricing(
    source: Predicting,
    prompt: Prompt,
    *,
    window: int | None = None,
    first: int = 4,
    scored: int | None = None,
    selection: Selection = ALL,
) -> Pricing:
    """Run the text once, with nothing taken away.

    window  the last keys that a windowed head keeps; an eighth of the text, at most 256, where it is None
    first   the first keys that it keeps besides
    scored  how many of the last tokens are scored; where it is None an eighth of the text, at most 512, and so few that
            `MOST_PASSES` do

    Raises InputError for a model without a cache, for a text too short, and for a window that hides no key.
    """
    n = len(prompt.tokens)
    behind = KeptKeys(default_window(n) if window is None else window, first)
    text, far = _run(source, prompt, scored, behind, selection)
    heads = cached_heads(text.layers, selection, n)
    count = max(FEWEST, int(2 * MOST_PASSES * n / max(len(heads), 1)))  # a run skips half of the blocks, on average
    if scored is None and prompt.generated is None and count < text.scored:
        text, far = _run(source, prompt, count, behind, selection)
        text.passes += 1
    if all(head.keys <= behind.kept for head in heads):
        raise InputError(
            f"a window of {behind.size:,} keys and {behind.first:,} first hides no key of {n:,} tokens",
            f"give a longer text, or a smaller window: --window {max(1, n // 8)}",
        )
    return Pricing(text, heads, behind, far)


def _run(
    source: Predicting, prompt: Prompt, scored: int | None, window: KeptKeys, selection: Selection
) -> tuple[ScoredText, FarWeights]:
    """The baseline run of a text, and the weight behind windows in it."""
    far = FarWeights(window)
    return scored_text(source, prompt, scored, look=Look(selection, far.visit)), far
