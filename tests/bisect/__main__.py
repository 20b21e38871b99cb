"""What `attn bisect` is held to, measured: `python -m tests.bisect SECONDS SEED FILE [KIND]` runs as many cases as fit.

Kinds: right models in several ways (innocent), one mistake in a tiny type of transformers (single) or in a port to
plain NumPy (port), two at once (pairs), and mistakes that no register has (outside). Cases are drawn by the seed; one
whose mistake changes nothing beyond rounding is no case. Each adds a line to FILE; what all of its lines come to is
printed.
"""

import json
import logging
import sys
import time
import warnings
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.bisect.cases import PortCase, TinyCase, is_named, is_placed
from tests.bisect.families import FAMILIES, MISTAKES, OUTSIDE, port_of, tiny
from tests.bisect.patched import PASS_PLANTS, PLANTS

TYPES = (  # noqa: SIM905
    "llama mistral qwen2 qwen3 gemma gemma2 gemma3_text phi phi3 stablelm starcoder2 olmo olmo2 cohere cohere2 "
    "granite helium glm glm4 nemotron gpt2 gpt_neox gptj gpt_neo opt persimmon falcon mixtral qwen2_moe qwen3_moe "
    "olmoe phimoe granitemoe exaone4 smollm3 arcee seed_oss ernie4_5 hunyuan_v1_dense apertus bitnet csm dbrx "
    "diffllama dots1 deepseek_v2 deepseek_v3 gpt_oss jetmoe minimax moshi mpt bloom codegen biogpt xglm "
    "vaultgemma lfm2 zamba2 jamba "
).split()
PRECISIONS = ("float32", "bfloat16", "4-bit")
WAYS = ("", "", "sdpa", "padded", "own 4-bit")
_RECURRENT = ("jamba", "zamba2", "lfm2", "minimax")  # whose layers read padding
KINDS = {"innocent": 0.35, "single": 0.3, "port": 0.15, "pairs": 0.1, "outside": 0.1}
"""The kinds of cases, and the share of the time that each gets."""


def drawn(kind: str, random: np.random.Generator) -> tuple[str, tuple[str, ...], str, str]:
    """The type or family, the mistakes, the precision and the way of a case."""
    every = (*PLANTS, *PASS_PLANTS)
    precision = str(random.choice(PRECISIONS))
    if kind == "innocent":
        name, way = str(random.choice(TYPES)), str(random.choice(WAYS))
        way = "" if way == "padded" and name in _RECURRENT else way
        return name, (), "float32" if way == "own 4-bit" else precision, way
    if kind == "single":
        return str(random.choice(TYPES)), (str(random.choice(every)),), precision, ""
    if kind == "pairs" and random.random() < 0.5:
        pairs = list(combinations(every, 2))
        return str(random.choice(TYPES)), pairs[random.integers(len(pairs))], "float32", ""
    family = str(random.choice(list(FAMILIES)))
    possible = [name for name, fits in MISTAKES.items() if fits(port_of(family, tiny(family))[1])]
    if kind == "pairs":
        pairs = list(combinations(possible, 2))
        return family, pairs[random.integers(len(pairs))], "float32", "port"
    return family, (str(random.choice(OUTSIDE if kind == "outside" else possible)),), precision, "port"


def outcome(
    kind: str, name: str, plants: tuple[str, ...], precision: str, way: str, seed: int
) -> dict[str, Any] | None:
    """One case as a row of the results; None where there is no such case."""
    row: dict[str, Any] = {"kind": kind, "type": name, "plants": plants, "precision": precision, "way": way,
                           "seed": seed}  # fmt: skip
    try:
        case: Any = PortCase(name, plants, precision, seed) if way == "port" else TinyCase(
            name, plants, precision, seed, way)  # fmt: skip
        made = case.dump()
    except Exception as error:
        return row | {"not built": type(error).__name__}
    if made is None:
        return None
    start = time.process_time()
    try:
        answer = case.verdict(made.arrays)
    except Exception as error:
        return row | {"failed": f"{type(error).__name__}: {error}"}
    found = answer.first.placed.array.name if answer.first else ""
    causes = [(one.planted.name, one.layers) for one in (answer.cause.mistakes if answer.cause else ())]
    row |= {"found": found, "expected": [name for name, _ in made.changed[:1]], "causes": causes,
            "seconds": time.process_time() - start}  # fmt: skip
    if kind == "innocent":
        return row | {"good": not found}
    placed = is_placed(answer, made)
    return row | {
        "placed": placed,
        "good": placed and not causes if kind == "outside" else is_named(answer, case.names()),
    }


def totals(rows: list[dict[str, Any]]) -> None:
    """Print the cases of every kind by what came out, and what went wrong by mistake, type and precision."""
    for kind in dict.fromkeys(row["kind"] for row in rows):
        of_kind = [row for row in rows if row["kind"] == kind and "not built" not in row]
        placed, good = (sum(row.get(key, False) for row in of_kind) for key in ("placed", "good"))
        failed, false = sum("failed" in row for row in of_kind), sum(is_false(row) for row in of_kind)
        words = f"{kind}: {len(of_kind)} cases, placed {placed}, right {good}, failed {failed}, false cause {false}"
        print(words, f"{np.mean([row.get('seconds', 0) for row in of_kind]):.2f} s each")
        bad = [row for row in of_kind if not row.get("good", False)]
        for key in ("plants", "type", "precision"):
            counts = Counter(str(row[key]) for row in bad)
            print(f"  not right by {key}: {', '.join(f'{name} {count}' for name, count in counts.most_common(8))}")


def is_false(row: dict[str, Any]) -> bool:
    """True for a case with a cause that is not right."""
    return bool(row.get("causes")) and not row["good"]


def main() -> None:
    """Run as many cases as fit, add them to a file of rows, and print what all rows of the file come to."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    seconds, seed, file = float(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    random = np.random.default_rng(seed)
    kinds = {sys.argv[4]: 1.0} if len(sys.argv) > 4 else KINDS
    with file.open("a") as out:
        for kind, share in kinds.items():
            until = time.process_time() + seconds * share
            while time.process_time() < until:
                row = outcome(kind, *drawn(kind, random), int(random.integers(2**31)))
                if row is not None:
                    print(json.dumps(row), file=out, flush=True)
    totals([json.loads(line) for line in file.read_text().splitlines()])


if __name__ == "__main__":
    main()
