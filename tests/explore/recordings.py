"""Small recordings for tests of the explorer: random queries and keys, with tokens that are words of a text."""

from functools import cache

import numpy as np

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Place
from attn_cli.kernel.definition import mask as masks
from attn_cli.kernel.definition.mask import Mask
from attn_cli.kernel.definition.rule import Rule
from attn_cli.prompt import Generated, Prompt, Token, Word
from attn_cli.recording import Recording
from attn_cli.summaries.reducers.record import recorded

WORDS = ("he", "sat", "on", "the", "river", "bank", "and", "un", "fold", "ed", ".", "\n")
WIDE = ("日本", "語", "の", "文章", "を", "読む", "人", "は", "x", "本")  # two columns a character


def prompt_of(count: int, *, special: bool = False, generated: int = 0, words: tuple[str, ...] = WORDS) -> Prompt:
    """A text of so many tokens, three of which may be one word; the last ones may be written by the model."""
    tokens, text = [], ""
    word = Word("unfolded")
    for at in range(count):
        shown = words[at % len(words)]
        joined = shown in ("fold", "ed", ".", "\n") or not text or text.endswith("\n")
        text += "" if joined else " "
        if shown == "un":
            word = Word("unfolded")
        is_special = special and at in (0, count - 1)
        span = (None, None) if is_special else (len(text), len(text) + len(shown))
        label, written = "[CLS]" if is_special else shown, at >= count - generated
        of = word if shown in ("un", "fold", "ed") else Word(shown)
        tokens.append(Token(at, label, at % len(words), *span, is_special, word=of, generated=written))
        text += "" if is_special else shown
    return Prompt(text, tuple(tokens), generated=Generated("", generated, ended=False) if generated else None)


@cache
def recording(
    layers: int = 3,
    heads: int = 4,
    n: int = 40,
    *,
    causal: bool = True,
    special: bool = False,
    generated: int = 0,
    seed: int = 0,
    d: int = 8,
) -> Recording:
    prompt = prompt_of(n, special=special, generated=generated)
    return recording_of(prompt, layers, heads, causal=causal, seed=seed, d=d)


def recording_of(
    prompt: Prompt, layers: int = 3, heads: int = 4, *, causal: bool = True, seed: int = 0, d: int = 8
) -> Recording:
    random, mask = np.random.default_rng(seed), masks.causal() if causal else Mask()
    return Recording(
        {"model": "small", "type": "test", "revision": None, "dtype": "float32", "device": "cpu"},
        prompt,
        tuple(recorded(_call(random, prompt, layer, heads, d, mask)) for layer in range(layers)),
    )


def _call(random: np.random.Generator, prompt: Prompt, layer: int, heads: int, d: int, mask: Mask) -> AttentionCall:
    n, groups = len(prompt.tokens), max(heads // 2, 1)
    q, k, v = (random.normal(size=(count, n, d)).astype(np.float32) for count in (heads, groups, groups))
    place = Place(
        layer, f"layers.{layer}", tuple(range(heads)), tuple(head // (heads // groups) for head in range(heads))
    )
    return AttentionCall(2 * q, k, v, Rule(d**-0.5, mask=mask), place, prompt.tokens, prompt.tokens)
