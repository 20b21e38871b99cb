"""The truth of `attn budget`: predicted against run loss of random plans, plans by weight, passes, and memory."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from transformers import AutoTokenizer

from attn_cli.model.source import Predicting
from attn_cli.prompt import Prompt
from attn_cli.summaries.budget.asked import Asked, target_of
from attn_cli.summaries.budget.plan import BESIDE, WITHIN, CachePlanner
from attn_cli.summaries.budget.pricing import Pricing, begin_pricing
from tests.architectures.knock import speaking
from tests.benchmarks.kept_runs import KeptSample
from tests.benchmarks.memory import _UNPACK
from tests.benchmarks.scan_memory import SMOLLM
from tests.benchmarks.timing import peak_mebibytes
from tests.real_models import SMOL
from tests.summaries.budget.planted import (
    planted_model,
    prompt_of_ids,
    repeated_words,
    trained_on_letters,
    trained_to_repeat,
)

SECTIONS = ("planted", "repeat", "letters", "plans", "guide", "code", "sums", "passes", "memory")
PLANS, TOKENS = 40, 1024
_GUIDE = Path(__file__).parents[2] / "attn_cli" / "guide"
_COMMAND = """
import os, sys
os.environ["ATTN_CACHE"] = "off"
sys.argv = ["attn", *sys.argv[1:], "-q", "--json"]
from attn_cli.__main__ import main
main()
"""


def lines(*, quick: bool = False, keep: Path | None = None, sections: Sequence[str] = SECTIONS) -> Iterator[str]:
    """A line for each figure; texts of SmolLM2 have 1,024 tokens, half of that with `quick`.

    planted, repeat, letters  40 random plans of a small model, predicted and run
    plans                     the same of SmolLM2, and of 40 near the plan
    guide, code, sums         the plan made on one of these texts, beside one by weight, and on the two others
    passes                    baseline runs that single losses take
    memory                    peaks of whole processes, beside attn knock

    Each is run by itself as `python -m tests.benchmarks budget.plans`; with `--keep FOLDER` runs are kept there, and a
    section that was stopped goes on.
    """
    torch.set_num_threads(1)
    tiny = {
        "planted": lambda: (planted_model(), repeated_words(1100), 16),
        "repeat": lambda: (*trained_to_repeat(), 8),
        "letters": lambda: (*trained_on_letters(_pages("working", "models")), 8),
    }
    for section, make in tiny.items():
        if section in sections:
            own, ids, window = make()
            asked = Asked(window=window, scored=min(96, len(ids) // 2), target=None)
            yield from _random_plans(section, _begun(speaking(own), prompt_of_ids(ids), asked, keep))
    if "memory" in sections:
        yield from _memory(quick=quick)
    if not {"plans", "guide", "code", "sums", "passes"} & set(sections):
        return
    source = _opened(str(SMOL))
    texts = {name: _cut(source, text, TOKENS // 2 if quick else TOKENS) for name, text in sample_texts().items()}
    if "plans" in sections:
        yield from _random_plans("SmolLM2, guide", _begun(source, texts["guide"], Asked(target=None), keep), near=True)
    for name in texts:
        if name in sections:
            whole = _begun(source, texts[name], Asked(target=None), keep)  # without a target nothing is held back
            yield _against_weight(replace(whole, asked=Asked()), texts, name)
    if "passes" in sections:
        yield from _passes(source, texts["guide"])


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


def _begun(source: Predicting, prompt: Prompt, asked: Asked, keep: Path | None) -> Pricing:
    """A text that ran once; later runs are kept in a folder, if there is one."""
    pricing = begin_pricing(source, [("", prompt)], asked)
    if keep is not None:
        pricing.sample = KeptSample(pricing.sample, keep)
    return pricing


def _random_plans(name: str, pricing: Pricing, *, near: bool = False) -> Iterator[str]:
    """Predicted against run loss of sets that were drawn by their sizes, evenly, by another seed than the pilots.

    near  also of sets in which up to a tenth of the units are decided otherwise than in the plan
    """
    singles = pricing.sample.losses([[unit] for unit in pricing.units])
    planner = CachePlanner(pricing.sample, pricing.heads, pricing.units, singles)
    planner.learn()
    passes, n = pricing.sample.passes, len(pricing.units)

    def of_size(draw: np.random.Generator) -> np.ndarray:
        own = np.zeros(n, dtype=bool)
        own[draw.permutation(n)[: draw.integers(1, n + 1)]] = True
        return own

    of_sets = f"{PLANS} random plans of {n} units, none run before"
    yield f"{name}: {of_sets}: {_predicted(planner, of_size)}; {passes:.1f} passes"
    if near:
        taken = planner.plan(target_of()).taken

        def near_plan(draw: np.random.Generator) -> np.ndarray:
            own = taken.copy()
            own[draw.permutation(n)[: draw.integers(1, n // 10 + 1)]] ^= True
            return own

        yield f"{name}: {PLANS} near the plan: {_predicted(planner, near_plan)}"


def _predicted(planner: CachePlanner, drawn: Callable[[np.random.Generator], np.ndarray]) -> str:
    """How well sets are predicted, of which none was run before."""
    draw, known = np.random.default_rng(2026), {own.tobytes() for own in planner.model.measured}
    sets: list[np.ndarray] = []
    while len(sets) < PLANS:
        own = drawn(draw)
        if own.tobytes() not in known:
            known.add(own.tobytes())
            sets.append(own)
    taken = np.stack(sets)
    predicted, summed = planner.model.predict(taken), taken @ planner.model.means
    losses = planner.sample.losses([planner.chosen(own) for own in sets])
    run = losses.mean(1)
    differ = np.abs(losses[:, ::2].mean(1) - losses[:, 1::2].mean(1))
    return (
        f"{run.min():+.3f} to {run.max():+.3f} bits a token; predicted: R2 {_explained(predicted, run):.3f}, "
        f"{_within(predicted, run)} within 15 % + 0.002, median miss {np.median(np.abs(predicted - run)):.4f}, "
        f"said {planner.model.error:.4f}; sum of singles: R2 {_explained(summed, run):.3f}, "
        f"{_within(summed, run)} within; "
        f"every second token and the others differ by {np.median(differ):.4f}"
    )


def _explained(predicted: np.ndarray, run: np.ndarray) -> float:
    return float(1 - ((predicted - run) ** 2).sum() / ((run - run.mean()) ** 2).sum())


def _within(predicted: np.ndarray, run: np.ndarray) -> str:
    return f"{int((np.abs(predicted - run) <= WITHIN * np.abs(run) + BESIDE).sum())} of {len(run)}"


def _against_weight(pricing: Pricing, texts: dict[str, Prompt], name: str) -> str:
    """A plan made on a text, held against the plan by weight of the same cache, on it and on the others."""
    answer = pricing.answer([(other, text) for other, text in texts.items() if other != name])
    priced = answer.plan
    assert priced is not None and priced.by_weight is not None
    unseen = "; ".join(f"{x.text.name} {x.bits:+.3f}, by weight {x.by_weight or 0.0:+.3f}" for x in priced.checked)
    return (
        f"SmolLM2, plan on {name}: cache {priced.plan.cache:.0%}, predicted {priced.plan.predicted:+.4f} "
        f"± {priced.plan.error:.4f}, run {priced.plan.bits:+.4f}, by weight {priced.by_weight.bits:+.4f} at "
        f"{priced.by_weight.cache:.0%}; unseen: {unseen}; {answer.passes:.1f} passes with plan"
    )


def _passes(source: Predicting, prompt: Prompt) -> Iterator[str]:
    """Baseline runs that single losses take."""
    windows = begin_pricing(source, [("", prompt)], Asked(target=None)).answer()
    yield f"SmolLM2, windows of {windows.key_heads} key heads: {windows.passes:.1f} passes (bar 20)"
    asked = Asked(keys="q4_0", values="q4_0", windows=False, target=None)
    rounded = begin_pricing(source, [("", prompt)], asked).answer()
    yield f"SmolLM2, K and V of {rounded.layers} layers: {rounded.passes:.1f} passes (bar 12)"


def _memory(*, quick: bool) -> Iterator[str]:
    """Peaks of the whole processes of `attn budget` and `attn knock` on the same text, of SmolLM2 in a folder."""
    with tempfile.TemporaryDirectory() as folder:
        peak_mebibytes(_UNPACK, SMOLLM, folder)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        ids = tokenizer(sample_texts()["guide"]).input_ids
        for n in (512,) if quick else (512, 1024):
            text = Path(folder, "text.txt")
            text.write_text(tokenizer.decode(ids[:n]), "utf-8")
            on_text = ("--file", str(text), "-m", folder)
            commands = {"budget": ["budget"], "budget --no-plan": ["budget", "--no-plan"], "knock": ["knock"],
                        "knock --everywhere -l 0": ["knock", "--everywhere", "-l", "0"]}  # fmt: skip
            peaks = {name: peak_mebibytes(_COMMAND, *words, *on_text) for name, words in commands.items()}
            yield f"SmolLM2, {n} tokens, peak MiB: " + ", ".join(f"{name} {peak:.0f}" for name, peak in peaks.items())
