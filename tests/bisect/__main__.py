"""What `attn bisect` is held to, measured: `python -m tests.bisect [SECONDS] [SEED]` runs as many cases as fit.

Mistakes x tiny types of transformers x precisions in an order drawn by the seed, pairs of mistakes, innocent pairs, and
mistakes that are in no register. A case whose mistake changes nothing beyond rounding is no case.
"""

import itertools
import sys
import time
import warnings
from collections import Counter
from typing import Any

import numpy as np
import torch

from attn_cli.dump import Dump, DumpArray
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.load.origin import Origin, OriginOptions
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.bisect.answer import Bisected, BisectRequest, bisect
from tests.architectures.tiny import tiny_model
from tests.bisect.patched import PASS_NAMES, PASS_PLANTS, PLANTS, copied, quantised, seen

TYPES = (  # noqa: SIM905
    "llama mistral qwen2 qwen3 gemma gemma2 gemma3_text phi phi3 stablelm starcoder2 olmo olmo2 cohere cohere2 "
    "granite helium glm glm4 nemotron gpt2 gpt_neox gptj gpt_neo opt persimmon falcon mixtral qwen2_moe qwen3_moe "
    "olmoe phimoe granitemoe exaone4 smollm3 arcee seed_oss ernie4_5 hunyuan_v1_dense apertus bitnet csm dbrx "
    "diffllama dots1 deepseek_v2 deepseek_v3 gpt_oss jetmoe minimax moshi mpt bloom codegen biogpt xglm "
    "vaultgemma lfm2 zamba2 jamba "
).split()
PRECISIONS = ("float32", "bfloat16", "4-bit")
FAR = {"float32": 1e-3, "bfloat16": 0.2, "4-bit": 1.0}  # relative, from which on a mistake shows beyond rounding


def source_of(model: Any, name: str) -> ModelSource:
    """A tiny model with its head as a source."""
    stack = getattr(model, model.base_model_prefix, model)
    about = {"model": name, "type": name}
    return ModelSource(LoadedModel(stack, None, about, Origin(name, name, OriginOptions()), model))


def dump_of(arrays: dict[str, np.ndarray], ids: np.ndarray) -> Dump:
    """The arrays as a dump that was read."""
    made = tuple(DumpArray(name, x.shape, "float32", lambda x=x: x) for name, x in arrays.items())
    return Dump("dump", made, tuple(ids.tolist()))


class Case:
    """A tiny type with mistakes in a precision."""

    def __init__(self, name: str, plants: tuple[str, ...], precision: str, seed: int) -> None:
        self.name, self.plants, self.precision = name, plants, precision
        self.random = np.random.default_rng(seed)
        self.model = tiny_model(name, "tiny")
        words = self.model.config.get_text_config().vocab_size
        self.ids = self.random.integers(0, words, 24)

    def dump(self) -> tuple[dict[str, np.ndarray], str] | None:
        """The mistaken arrays, and the name of the first that shows it; None where there is no such mistake."""
        port = copied(self.model)
        if self.precision == "4-bit":
            quantised(port)
        right = seen(copied(port), self.ids, precision=self.precision)
        of_pass = [plant for plant in self.plants if plant in PASS_PLANTS]
        for plant in self.plants:
            if plant in PLANTS and not PLANTS[plant][1](port):
                return None
        wrong = seen(port, self.ids, of_pass[0] if of_pass else "", self.precision)
        if len(self.plants) > 1 and not all(self._shows(plant, right) for plant in self.plants):
            return None
        for name, x in wrong.items():
            size = np.sqrt((right[name] ** 2).mean(-1)) + 1e-9
            if (np.sqrt(((x - right[name]) ** 2).mean(-1)) / size).max() > FAR[self.precision]:
                return wrong, name
        return (wrong, "") if not self.plants else None

    def _shows(self, plant: str, right: dict[str, np.ndarray]) -> bool:
        """True if the mistake alone changes what is dumped."""
        port = copied(self.model)
        if plant in PLANTS:
            PLANTS[plant][1](port)
        alone = seen(port, self.ids, plant if plant in PASS_PLANTS else "", self.precision)
        return any(np.abs(x - right[name]).max() > FAR[self.precision] * np.abs(right[name]).max()
                   for name, x in alone.items())  # fmt: skip

    def verdict(self, arrays: dict[str, np.ndarray]) -> Bisected:
        """The product's answer."""
        request = BisectRequest("4-bit" if self.precision == "4-bit" else None)
        reference = source_of(self.model, self.name).reference()
        return bisect(reference, self.ids.tolist(), dump_of(arrays, self.ids), request, lambda words: None)


def name_of(plant: str) -> str:
    """Its name in the register."""
    return PASS_NAMES[plant] if plant in PASS_PLANTS else PLANTS[plant][0]


def is_named(answer: Bisected, plants: tuple[str, ...]) -> bool:
    """True if every planted mistake is among those that are named."""
    names = [part for mistake in (answer.cause.mistakes if answer.cause else ()) for part in mistake.name.split("+")]
    names += [mistake.name for mistake in (answer.cause.mistakes if answer.cause else ())]
    wanted = [{name_of(plant), "positions+1"} if plant == "positions" else {name_of(plant)} for plant in plants]
    return all(any(name.startswith(tuple(each)) for name in names) for each in wanted)


def measure(kind: str, cases: Any, until: float, *, verbose: bool) -> Counter[str]:
    """Run cases until a time; counts by outcome."""
    counts: Counter[str] = Counter()
    for name, plants, precision, seed in cases:
        if time.monotonic() > until:
            break
        try:
            case = Case(name, plants, precision, seed)
            made = case.dump()
        except Exception as error:
            counts[f"not built: {type(error).__name__}"] += 1
            continue
        if made is None:
            continue
        arrays, first = made
        try:
            answer = case.verdict(arrays)
        except Exception as error:
            counts["cases"] += 1
            counts["failed"] += 1
            print(f"  {kind} {name} {plants} {precision}: {type(error).__name__}: {error}")
            continue
        counts["cases"] += 1
        found = answer.first.placed if answer.first else None
        if not plants:
            counts["called wrong"] += found is not None
        else:
            own = next((one.placed.at for one in answer.judged if one.placed.array.name == first), None)
            counts["placed"] += found is not None and (found.array.name == first or found.at == own)
            counts["named"] += is_named(answer, plants)
        good = (found is None) if not plants else is_named(answer, plants)
        if verbose and not good:
            at = "" if found is None else f"{found.array.name} ({found.at.kind})"
            words = [x.name for x in answer.cause.mistakes] if answer.cause else []
            print(f"  {kind} {name} {plants} {precision}: first {at} for {first}, named {words}", flush=True)
    return counts


def main() -> None:
    """Print a line for every bar."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    seconds, seed = (float(sys.argv[1]) if len(sys.argv) > 1 else 600), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    random = np.random.default_rng(seed)
    every = [*PLANTS, *PASS_PLANTS]

    def shuffled(cases: list[Any]) -> list[Any]:
        return [cases[at] for at in random.permutation(len(cases))]

    single = [(t, (p,), d, seed + i) for i, (t, p, d) in enumerate(itertools.product(TYPES, every, PRECISIONS))]
    pairs = [(t, pair, "float32", seed + i) for i, (t, pair) in
             enumerate(itertools.product(TYPES, itertools.combinations(every, 2)))]  # fmt: skip
    innocent = [(t, (), d, seed + i) for i, (t, d, _) in enumerate(itertools.product(TYPES, PRECISIONS, range(12)))]
    for kind, cases, share in (("innocent", innocent, 0.3), ("single", single, 0.5), ("pairs", pairs, 0.2)):
        counts = measure(kind, shuffled(cases), time.monotonic() + seconds * share, verbose=True)
        print(kind, dict(counts), flush=True)


if __name__ == "__main__":
    main()
