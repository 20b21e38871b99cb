"""Recordings of anybody's arrays: the weights of the definition, read again from the file, whoever made the arrays."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attn_cli.errors import InputError
from attn_cli.kernel.definition.dense import attend
from attn_cli.kernel.definition.mask import all_of, causal, window
from attn_cli.kernel.definition.rule import Rule
from attn_cli.recording import Recording
from tests.program import attn, strict_json

RANDOM = np.random.default_rng(0)
WORDS = ["the", "cat", "sat", "on", "the", "mat"]


def arrays(layers: int = 2, h: int = 4, g: int = 2, n: int = 6, m: int = 6, d: int = 8) -> list[tuple[np.ndarray, ...]]:
    return [
        tuple(RANDOM.normal(size=size).astype(np.float32) for size in ((h, n, d), (g, m, d), (g, m, d)))
        for _ in range(layers)
    ]


def weights(recording: Recording, layer: int) -> np.ndarray:
    kept = recording.layers[layer]
    return np.stack([kept.weights(head, slice(0, kept.n), slice(0, kept.m)) for head in range(kept.h)])


@pytest.mark.parametrize("n", [6, 2])
def test_weights_and_statistics_are_those_of_the_definition(n: int, tmp_path: Path) -> None:
    layers = arrays(n=n)
    q, k, v = ([layer[at] for layer in layers] for at in range(3))
    Recording.of(q, k, v, tokens=WORDS, model="my engine").save(tmp_path / "x.attn")
    read = Recording.load(tmp_path / "x.attn")
    assert [token.text for token in read.layers[0].queries] == WORDS[6 - n :]
    for number, of_layer in enumerate(layers):
        expected = attend(*of_layer, Rule(8**-0.5, mask=causal(6 - n))).weights
        np.testing.assert_allclose(weights(read, number), expected, atol=1e-6)
        np.testing.assert_allclose(read.layers[number].value_norms, np.linalg.norm(of_layer[2], axis=-1), rtol=1e-6)
    heads = strict_json(attn("heads", "-m", tmp_path / "x.attn", "--json").text)
    assert heads["about"]["model"] == "my engine"
    first = attend(*layers[0], Rule(8**-0.5, mask=causal(6 - n))).weights[0]
    entropy = -(first * np.log2(np.where(first > 0, first, 1))).sum(-1).mean()
    assert heads["tables"]["heads"][0]["entropy_bits"] == pytest.approx(entropy, rel=1e-5)


def test_a_rule_of_each_layer() -> None:
    layers = arrays()
    rules = [Rule(0.3, softcap=2.0), Rule(0.1, mask=all_of(causal(), window(2)))]
    recording = Recording.of(*([layer[at] for layer in layers] for at in range(2)), rule=rules.__getitem__)
    for number, (q, k, v) in enumerate(layers):
        np.testing.assert_allclose(weights(recording, number), attend(q, k, v, rules[number]).weights, atol=1e-6)


Q, K, V = arrays(1)[0]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"q": [Q, Q], "k": [K]}, r"q and k are not of the same layers: q of \[0, 1\], k of \[0\]"),
        ({"q": [], "k": []}, "q and k are not of the same layers"),
        ({"q": [Q[0]], "k": K}, r"layer 0: q is \[6, 8\] of float32"),
        ({"q": [Q.astype(int)], "k": K}, r"layer 0: q is \[4, 6, 8\] of int64"),
        ({"q": Q, "k": K[:, :3]}, r"layer 0: q \[4, 6, 8\], k \[2, 3, 8\] are not of one attention"),
        ({"q": Q[:3], "k": K}, r"layer 0: q \[3, 6, 8\], k \[2, 6, 8\] are not of one attention"),
        ({"q": Q, "k": K, "v": V[:, :2]}, r"v \[2, 2, 8\] are not of one attention"),
        ({"q": Q, "k": K, "tokens": WORDS[:5]}, "5 tokens for 6 keys of layer 0"),
        ({"q": [Q, Q[:, :2]], "k": [K, K[:, :2]]}, "6 tokens for 2 keys of layer 1"),
    ],
)
def test_arrays_that_are_not_of_one_text(given: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError, match=line):
        Recording.of(**given)
