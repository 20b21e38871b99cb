"""A text whose last tokens are scored, and what they lose when something is taken from the cache that they read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from attn_cli.call import Look
from attn_cli.errors import InputError
from attn_cli.model.intervention import LOOKS_AHEAD, AttentionLayer, Experiment, Intervention, Slopes
from attn_cli.model.kv_cache import CacheChange
from attn_cli.model.source import Predicting
from attn_cli.prompt import Prompt

LEAST_TOKENS = 48
"""Tokens of a text below which nothing is priced: too few would be scored."""
FEWEST = 16
"""Tokens that are scored, at least."""
_SHARE, _MOST = 8, 512  # one token of so many is scored; so many at most


def scored_count(tokens: int) -> int:
    """The number of a text's last tokens that are scored by default: an eighth, from 16 to 512.

    >>> scored_count(4096), scored_count(1000), scored_count(64)
    (512, 125, 16)
    """
    return max(FEWEST, min(_MOST, tokens // _SHARE))


def marked(prompt: Prompt, count: int) -> Prompt:
    """The prompt with its last `count` tokens marked as generated, so that they are scored;
    unchanged if some were generated.

    Raises InputError for a text that is too short.
    """
    if prompt.generated is not None:
        return prompt
    n = len(prompt.tokens)
    if n < LEAST_TOKENS or count >= n:
        raise InputError(
            f"{n:,} tokens: too few to score {count:,} of them after a prefix",
            f"give a text of {max(LEAST_TOKENS, 4 * count):,} tokens or more; --scored says how many are scored",
        )
    return replace(prompt, tokens=tuple(replace(x, generated=x.index >= n - count) for x in prompt.tokens))


RUNS_OF_SLOPES = 3.3
"""Runs that slopes take, by processor time: derivatives go all the way back."""


@dataclass(eq=False)
class ScoredText:
    """A text, its baseline run with the whole KV cache, and the work that was spent on it.

    name        the file that it came from; "" for the text of the command line
    experiment  the baseline, from which runs with less cache go on
    passes      the work so far in baseline runs: 1 for the baseline, part of 1 for each run with less cache
    """

    name: str
    prompt: Prompt
    experiment: Experiment
    passes: float = 1.0

    @property
    def rows(self) -> tuple[int, ...]:
        """The rows that predict the scored tokens: for each the one before it."""
        target = self.experiment.target
        assert target is not None
        return target.rows

    @property
    def scored(self) -> int:
        """The number of scored tokens."""
        return len(self.rows)

    @property
    def bits(self) -> float:
        """The mean -log2 p of a scored token, with nothing taken away."""
        target = self.experiment.target
        assert target is not None
        return target.bits / self.scored

    @property
    def noise(self) -> float:
        """The largest |change| of -log2 p in bits a token between runs with nothing taken from the cache: rounding."""
        return self.experiment.noise_floor.effect / self.scored

    @property
    def layers(self) -> Sequence[AttentionLayer]:
        """The layers whose KV cache the scored tokens read."""
        return self.experiment.layers

    def losses(self, interventions: Sequence[Intervention], step: Callable[[], None] = lambda: None) -> np.ndarray:
        """The rise of each scored token's -log2 p, in bits, with each of these interventions, `[runs, tokens]`.

        step  called after each run
        """
        self.passes += self.experiment.passes(interventions)
        losses = []
        for outcome in self.experiment.outcomes(interventions):
            losses.append([-bits for bits in outcome.token_bits])
            step()
        return np.array(losses).reshape(len(losses), self.scored)

    def slopes(self, windows: Sequence[CacheChange], shares: Sequence[float]) -> Slopes | None:
        """The change of the scored tokens' log2 p, added up, in bits, with each window applied by its share,
        and its derivatives by the shares.

        A share, 0 to 1, mixes the outputs of the window's heads without and with it. None where the model's operations
        have no derivative, or the text is too long for them.
        """
        slopes = self.experiment.slopes(windows, shares)
        if slopes is not None:
            self.passes += RUNS_OF_SLOPES * self.experiment.passes([Intervention(cache=tuple(windows))])
        return slopes


def scored_text(
    source: Predicting, prompt: Prompt, count: int | None = None, *, name: str = "", look: Look | None = None
) -> ScoredText:
    """Run a prompt once with the whole KV cache; its last `count` tokens are scored, an eighth where that is None.

    What a model generated is scored instead, if the prompt ends in it.

    name  the file that it came from, or ""
    look  a visitor of the run's attention, with the layers and heads that it sees; None for none

    Raises InputError for a model without a language-model head or with an encoder, and for a text that is too short.
    """
    if not source.has_lm_head:
        raise InputError("an encoder reads its text at once and keeps no cache: there is nothing to price",
                         "attn knock measures what its heads change")  # fmt: skip
    if "decoder" in prompt.others:
        raise InputError("an encoder-decoder caches what its encoder read, which no window of its decoder shortens",
                         "attn knock measures what its heads change")  # fmt: skip
    text = marked(prompt, scored_count(len(prompt.tokens)) if count is None else count)
    scored = ScoredText(name, text, source.experiment(text, look=look))
    if scored.experiment.no_cache_reason == LOOKS_AHEAD:
        raise InputError(f"{LOOKS_AHEAD}: such a model keeps no cache, and there is nothing to price",
                         "attn knock measures what its heads change")  # fmt: skip
    return scored
