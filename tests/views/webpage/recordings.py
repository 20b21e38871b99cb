"""Recordings of made-up layers: the shapes and oddities that a page must hold, without a model."""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from attn_cli.attention_call import AttentionCall
from attn_cli.call import Place
from attn_cli.kernel.definition.mask import Mask, all_of, causal, window
from attn_cli.kernel.definition.rule import Rule
from attn_cli.prompt import Generated, Prompt, Token
from attn_cli.recording import RecordedLayer, Recording
from attn_cli.summaries.reducers.record import recorded

ABOUT = {"model": "made-up", "type": "model", "revision": None, "dtype": "float32", "device": "cpu"}
TEXT = "He sat on the river bank,\nand the bank of the river was cold that day."
CAUSAL = causal()


def tokens_of(text: str, *, special: bool = True, generated: int = 0) -> tuple[Token, ...]:
    """Words and marks of a text, between [CLS] and [SEP] if wanted; the last so many are generated."""
    matches = [*re.finditer(r"\w+|[^\w\s]", text)]
    tokens = [Token(0, match[0], start=match.start(), end=match.end()) for match in matches]
    tokens = tokens[: len(tokens) - generated] + [replace(t, generated=True) for t in tokens[len(tokens) - generated :]]
    if special:
        tokens = [Token(0, "[CLS]", special=True), *tokens, Token(0, "[SEP]", special=True)]
    return tuple(replace(token, index=at) for at, token in enumerate(tokens))


def layer_of(
    number: int,
    queries: tuple[Token, ...],
    keys: tuple[Token, ...] | None = None,
    *,
    heads: int = 4,
    rule: Rule | None = None,
    stream: str = "self",
    call: int = 0,
) -> RecordedLayer:
    """A layer of random queries and keys, some of them far apart, so that weights are of all sizes."""
    keys = queries if keys is None else keys
    rng = np.random.default_rng(number + 100 * len(stream))
    q, k, v = (rng.normal(size=(heads, len(x), 8)).astype(np.float32) for x in (queries, keys, keys))
    q *= np.linspace(0.5, 4, heads, dtype=np.float32)[:, None, None]
    place = Place(number, f"{stream}.{number}", tuple(range(heads)), tuple(range(heads)), stream=stream, call=call)
    return recorded(AttentionCall(q, k, v, rule or Rule(scale=8**-0.5), place, queries, keys))


def masked(mask: Mask, **more: object) -> Rule:
    return Rule(scale=8**-0.5, mask=mask, **more)  # type: ignore[arg-type]


def recording_of(*layers: RecordedLayer, text: str = TEXT, prompt: Prompt | None = None) -> Recording:
    return Recording(ABOUT, prompt or Prompt(text, layers[0].queries), layers)


def causal_model(layers: int = 3, heads: int = 4) -> Recording:
    tokens = tokens_of(TEXT)
    masks: Sequence[Mask] = [CAUSAL] * (layers - 1) + [all_of(CAUSAL, window(5))]
    return recording_of(*(layer_of(at, tokens, heads=heads, rule=masked(mask)) for at, mask in enumerate(masks)))


def encoder_decoder() -> Recording:
    encoder, decoder = tokens_of(TEXT), tokens_of("Er saß am Ufer", special=False)
    decoder = tuple(replace(token, start=None, end=None) for token in decoder)
    return recording_of(
        layer_of(0, encoder, stream="encoder", rule=masked(Mask())),
        layer_of(0, decoder, stream="decoder", rule=masked(CAUSAL)),
        layer_of(0, decoder, encoder, stream="cross"),
        prompt=Prompt(TEXT, encoder, others={"decoder": decoder}),
    )


def with_generated() -> Recording:
    """A text whose last three tokens the model wrote, in a model with learned sinks."""
    tokens = tokens_of(TEXT, special=False, generated=3)
    start = TEXT.index("that")
    prompt = Prompt(TEXT, tokens, generated=Generated(TEXT[start:], 3, ended=True, start=start))
    return recording_of(layer_of(0, tokens, rule=masked(CAUSAL, sink=np.linspace(-1, 2, 4))), prompt=prompt)


def weights_alone() -> Recording:
    """A layer of a model that shows its weights and neither queries, keys nor scores."""
    layer = layer_of(0, tokens_of(TEXT), rule=masked(CAUSAL))
    seen = np.stack([layer.weights(head, slice(None), slice(None)) for head in range(layer.h)])
    return recording_of(replace(layer, q=None, k=None, seen=seen, shows_scores=False))


def without_softmax() -> Recording:
    """Weights that are scores: some above 1, some below 0."""
    return recording_of(layer_of(0, tokens_of(TEXT), rule=Rule(scale=0.5, softmax=False)))


def told(recording: Recording) -> Recording:
    """The recording with a story: two words that the last token needs, each brought by a head."""
    words = [("river", 5, -3.0), ("bank", 6, -1.0)]
    heads = [(1, 2, 5, -2.0), (2, 0, 6, -1.0)]
    story = {
        "answer": ".", "generated": False, "probability": 0.43, "next": [{"token": ".", "id": 1, "probability": 0.43}],
        "rows": [19], "cut": "words", "noise": 0.0, "obstacle": "",
        "words": [{"name": word, "text": word, "key": key, "tokens": 1, "bits": bits} for word, key, bits in words],
        "heads": [
            {"stream": "self", "layer": layer, "head": head, "bits": bits, "key": key, "key_token": "", "weight": 0.5}
            for layer, head, key, bits in heads
        ],
    }  # fmt: skip
    return replace(recording, told={"19": story})
