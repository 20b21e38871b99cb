"""The end of a text that is held back: no price and no plan is made on it, so that a plan can be run there."""

from dataclasses import dataclass, replace

from attn_cli.prompt import Prompt
from attn_cli.summaries.budget.asked import Asked
from attn_cli.summaries.budget.scored_text import FEWEST, LEAST_TOKENS, scored_count
from attn_cli.summaries.budget.windows import KeptKeys, default_window

_TIMES = 2  # a text is so many times as long as what is held back of it, without that


@dataclass(frozen=True)
class SplitText:
    """A text whose end is held back, to check a plan on tokens that it was not made on.

    sample  the prompt on which losses without parts of the KV cache are measured, and plans are made
    whole   the prompt of all tokens, of which the last `count` are held back; 0 for none
    """

    sample: Prompt
    whole: Prompt
    count: int


def split_text(prompt: Prompt, asked: Asked) -> SplitText:
    """A prompt, and its last tokens held back to check a plan: as many as are scored, none without a plan.

    None are held back of a text too short for both, either. Of tokens that a model generated, which alone are scored,
    the last half is held back.
    """
    n, written = len(prompt.tokens), sum(token.generated for token in prompt.tokens)
    if prompt.generated is not None:
        count = written // 2
        is_long = count >= FEWEST
    else:
        count = scored_count(n) if asked.scored is None else asked.scored
        window = default_window(n - count) if asked.window is None else asked.window
        is_long = n - count >= max(LEAST_TOKENS, _TIMES * count) and n - count > KeptKeys(window, asked.first).count
    if not is_long or not asked.plans:
        return SplitText(prompt, prompt, 0)
    at = n - count
    sample = replace(
        prompt, tokens=prompt.tokens[:at], template=tuple(place for place in prompt.template if place < at)
    )
    if prompt.generated is None:
        return SplitText(sample, prompt, count)
    sample = replace(sample, generated=replace(prompt.generated, tokens=written - count))
    whole = replace(prompt, tokens=tuple(replace(x, generated=x.index >= at) for x in prompt.tokens))
    return SplitText(sample, whole, count)
