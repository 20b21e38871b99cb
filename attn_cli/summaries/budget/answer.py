"""attn budget: the price of a smaller KV cache, in bits a token of the text's last tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attn_cli.fields import Field
from attn_cli.model.intervention import NoiseFloor, RunMode
from attn_cli.model.kv_cache import KeyHead
from attn_cli.summaries.budget.fields import FIELDS
from attn_cli.summaries.budget.plan import BudgetTarget, CachePlan
from attn_cli.summaries.budget.scored_text import ScoredText
from attn_cli.summaries.budget.units import Taken, Unit
from attn_cli.summaries.budget.windows import KeptKeys
from attn_cli.summaries.report import Answer

FEWEST_TEXTS = 3
"""Texts from which on the spread over them is told."""


@dataclass(frozen=True)
class PricedUnit:
    """A part of the KV cache, and the loss when it alone is taken away: keys behind a window, or digits by rounding.

    unit           the part
    bits           the rise of -log2 p in bits a scored token, mean over the texts of the sample
    by_text        the same for each text
    weight_behind  of a window, the mean weight on the keys that it cuts off, in a run without it; None where unknown
    """

    unit: Unit
    bits: float
    by_text: tuple[float, ...]
    weight_behind: float | None = None

    @property
    def place(self) -> KeyHead:
        """The layer and the key head of the part; of a part of a whole layer key head 0."""
        return self.unit.place

    @property
    def key_head(self) -> int | None:
        """The number of its key head; None where the part is of a whole layer."""
        return None if self.unit.whole_layer else self.place.head

    @property
    def spread(self) -> float | None:
        """The standard deviation of `bits` over the texts of the sample; None for fewer than three."""
        return float(np.std(self.by_text, ddof=1)) if len(self.by_text) >= FEWEST_TEXTS else None


@dataclass(frozen=True)
class RoundedAll:
    """The rise of -log2 p, in bits a scored token, with the keys and values of all layers rounded.

    format  the one in which they are rounded, such as "q8_0"
    keys, values, both  the rise with the keys alone rounded, with the values alone, and with both
    """

    format: str
    keys: float
    values: float
    both: float


@dataclass(frozen=True)
class TextSizes:
    """A text: the name of its file, "" on the command line, how many tokens it has,
    and how many of the last are scored.

    bits  the mean -log2 p of a scored token with the whole KV cache
    """

    name: str
    tokens: int
    scored: int
    bits: float

    @classmethod
    def of(cls, text: ScoredText) -> "TextSizes":
        """What is told of a text that was run: its name, tokens, scored tokens and their mean -log2 p."""
        return cls(text.name, len(text.prompt.tokens), text.scored, text.bits)


@dataclass(frozen=True, eq=False)
class CheckedPlan:
    """What a plan of a smaller KV cache loses on tokens that it was not made on, in bits a scored token.

    text       the text, of which the last tokens are scored
    losses     the rise of -log2 p of each of its t scored tokens, in bits `[t]`
    by_weight  the mean loss there of a plan of as small a cache that is made by attention weights alone; None where
               there is none
    """

    text: TextSizes
    losses: np.ndarray
    by_weight: float | None

    @property
    def bits(self) -> float:
        """The mean loss, the rise of -log2 p, in bits a scored token."""
        return float(self.losses.mean())

    @property
    def error(self) -> float:
        """The standard error of the mean loss, in bits: how far other tokens of the same text may move it by chance."""
        return standard_error(self.losses)


def standard_error(losses: np.ndarray) -> float:
    """The standard error of a mean over the losses of t tokens `[t]`, taken as independent draws; 0 of a single one."""
    return float(np.std(losses, ddof=1) / np.sqrt(len(losses))) if len(losses) > 1 else 0.0


@dataclass(frozen=True)
class PricedPlan:
    """A plan of what to take from the KV cache at once, with its loss on the sample of texts and on other texts.

    plan       the parts that are taken away: windows on key heads, or digits of a layer's keys or values
    target     the loss, share of the cache or share of heads that it was to stay within
    by_text    the loss on each text of the sample: the rise of -log2 p, in bits a scored token
    by_weight  the plan of as small a cache that windows the key heads with the least weight behind the window, which is
               how plans are made by attention alone; None where no windows are planned
    held       the plan on the end of each text of the sample that was held back; () where all are too short
    checked    the plan on other texts; () without any
    """

    plan: CachePlan
    target: BudgetTarget
    by_text: tuple[float, ...]
    by_weight: CachePlan | None = None
    held: tuple[CheckedPlan, ...] = ()
    checked: tuple[CheckedPlan, ...] = ()

    @property
    def held_losses(self) -> np.ndarray | None:
        """The rise of -log2 p, in bits, by the plan, of each of the t scored tokens held back from the sample `[t]`;
        None where none was.
        """
        return np.concatenate([own.losses for own in self.held]) if self.held else None

    @property
    def is_within(self) -> bool:
        """True if the plan loses no more on the sample, or leaves no more of the cache, than was asked for."""
        if self.target.bits is not None:
            return self.plan.bits <= self.target.bits
        return self.target.cache is None or self.plan.cache <= self.target.cache


@dataclass(frozen=True, eq=False)
class Budget(Answer):
    """What a smaller KV cache costs, part by part, and with `plan` which parts to take away together.

    Loss is the rise of -log2 p, in bits a scored token; the last tokens of each text are scored.

    texts    name and sizes of each text that was run, without its end, where that is held back to check a plan
    layers, key_heads  how many are cached, of the chosen layers
    bits     -log2 p a scored token with nothing taken away
    window   how many last and first keys a windowed key head keeps
    top      how many keys, those of the highest scores, each query head sees where the loss by that is measured; else
             None
    keys, values  the formats, such as "q8_0", in which a layer's keys and values are rounded; "" for none
    noise    bits a token by which runs with nothing taken away differ from one another: rounding
    passes   the work, in runs of one text with the whole cache
    run_mode  how rows were computed: "cache" (last rows alone), "prefix" or "whole"; `no_cache_reason` why not "cache"
    units    the parts with their losses, in the order of the forward pass
    rounded  the losses with all layers rounded, by format
    plan     None where none was asked for, or nothing can be saved
    """

    name: ClassVar[str] = "budget"
    fields: ClassVar[Sequence[Field]] = FIELDS
    table: ClassVar[str] = "units"

    texts: tuple[TextSizes, ...]
    layers: int
    key_heads: int
    bits: float
    window: KeptKeys
    top: int | None
    keys: str
    values: str
    noise: float
    passes: float
    run_mode: RunMode
    no_cache_reason: str
    units: tuple[PricedUnit, ...]
    rounded: tuple[RoundedAll, ...] = ()
    plan: PricedPlan | None = None

    @property
    def least(self) -> float:
        """The least loss, in bits a token, that can be told from rounding: 4 times what whole-cache runs show."""
        return NoiseFloor.FACTOR * self.noise

    def of(self, *taken: Taken) -> list[PricedUnit]:
        """The parts of the cache, with their losses, of which this is taken away, in the order of the forward pass.

        taken  one or more of "window" (keys behind a window), "top" (all keys but those of the highest scores), "keys"
               and "values" (their digits); [] if no loss of such a part was measured
        """
        return [priced for priced in self.units if priced.unit.taken in taken]

    @property
    def planned(self) -> list[tuple[PricedUnit, bool | None]]:
        """Each part of the cache whose loss was measured, with whether the plan takes it away: None without a plan."""
        if self.plan is None:
            return [(priced, None) for priced in self.units]
        return list(zip(self.units, self.plan.plan.taken.tolist(), strict=True))

    def arrays(self) -> dict[str, np.ndarray]:
        """`taken`, `layers`, `key_heads`, `bits` and `weight_behind` of each part whose loss was measured, `[units]`.

        `taken` is what is taken away ("window", "top", "keys", "values"), `key_heads` -1 for a whole layer, `bits` the
        rise of -log2 p a scored token, `weight_behind` the mean weight behind the window, NaN if unknown; booleans
        `in_plan` are there with a plan.
        """
        unseen = (np.nan if priced.weight_behind is None else priced.weight_behind for priced in self.units)
        arrays = {
            "taken": np.array([priced.unit.taken for priced in self.units]),
            "layers": np.array([priced.place.layer for priced in self.units]),
            "key_heads": np.array([-1 if priced.key_head is None else priced.key_head for priced in self.units]),
            "bits": np.array([priced.bits for priced in self.units]),
            "weight_behind": np.array(list(unseen)),
        }
        return arrays if self.plan is None else arrays | {"in_plan": self.plan.plan.taken}
