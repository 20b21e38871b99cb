"""`python -m tests.architectures [TYPE ...]` checks types, all by default, and writes RESULTS.md beside this file."""

import sys
import time
from collections import Counter
from datetime import date
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import transformers

from tests.architectures.apart import check_all
from tests.architectures.check import Result
from tests.architectures.known import BATCHES, KNOWN, NOT_BUILT
from tests.architectures.tiny import every_type

TABLE = Path(__file__).with_name("RESULTS.md")
_PACKAGES = ("torch", "timm", "torchvision", "torchaudio")  # some types need one of the last three
_VERDICTS = ("equal", "close", "different", "unreferenced", "no attention", "refused", "not built")
_HEAD = """# Architectures

Every model type that transformers {transformers} lists, built tiny from its configuration class with large random
weights, seen by `attn` in one forward pass, and compared with the attention that the model itself returns under its
eager implementation. Written by `python -m tests.architectures` on {day} with {packages}, in {minutes:.0f} minutes.

| verdict | types | meaning |
|---|--:|---|
| equal | {equal} | every returned tensor was seen, within 1e-5 |
| close | {close} | the same within 1e-4 |
| different | {different} | some returned tensor was not among those seen; the note says why |
| unreferenced | {unreferenced} | seen, rows valid, outputs unchanged; the model returns nothing to compare with |
| no attention | {no attention} | no softmax attention; `attn` says so |
| refused | {refused} | a layer can't be seen, and `attn` says which |
| not built | {not built} | no tiny model could be made here; the note says what it lacks |

*weights*: the largest difference between weights seen and returned. *scores*: the same of what went into the softmax,
relative to the largest score of a layer. *outputs*: the largest between the model's outputs with `attn` looking on and
without, relative to the largest number of each. *layers*: attention modules by stream. *ways*: calls by the way they
were seen (`attn matrix --json` says it of every layer).

Of types that read text ({texts}), a text of 12 tokens and its first 8 are also read in one batch padded on the right,
which is the side that `attn` pads, and on the *left*, and compared with each text alone. `attn` reads the texts of some
models *one by one*, because padding would change what the model makes of a text. *cache*: the rows of one more token,
read with a cache of the keys and values before it, against the rows of all tokens read at once.

| | equal | one by one | model's own | can't run | no mask or cache | differs |
|---|--:|--:|--:|--:|--:|--:|
| right | {right} |
| left | {left} |
| cache | {cache} |

*model's own*: the weights move because the model's outputs do, by the number beside it, under its own eager attention
too; what `attn` shows equals what eager returns on the same batch. *differs*: not so; of those read one by one because
keys that the model adds beside those of the text move with its padding.

| type | verdict | layers | ways | weights | scores | outputs | right | left | cache | note |
|---|---|---|---|--:|--:|--:|--:|--:|--:|---|
"""


def table(results: list[Result], seconds: float) -> str:
    """The results as a page of Markdown."""
    verdicts = Counter(result.verdict for result in results)
    counts = {name: verdicts[name] for name in _VERDICTS}
    texts = [result for result in results if result.right]
    sides = {side: _tally(texts, side) for side in ("right", "left", "cache")}
    head = _HEAD.format(
        transformers=transformers.__version__,
        packages=", ".join(f"{name} {version(name)}" for name in _PACKAGES if find_spec(name)),
        day=date.today(),
        minutes=seconds / 60,
        texts=len(texts),
        **counts,
        **sides,
    )
    return head + "".join(_row(result) for result in results)


def _tally(results: list[Result], side: str) -> str:
    """How many results of each kind a column has."""
    kinds = Counter(_kind(_shown(result, side)) for result in results)
    return " | ".join(str(kinds[kind]) for kind in ("equal", "one", "model's", "can't", "no", "differs"))


def _kind(answer: str) -> str:
    first = answer.partition(" ")[0]
    return "equal" if first[:1].isdigit() else first


def _shown(result: Result, side: str) -> str:
    """The answer about a way of running, as `attn` runs the type."""
    return "one by one" if side == "right" and result.alone else getattr(result, side)


def _row(result: Result) -> str:
    numbers = [result.difference, result.scores, result.output]
    known = [reasons.get(result.name, "") for reasons in (KNOWN, BATCHES)]
    if result.verdict == "not built" and result.name in NOT_BUILT:
        known, result.note = [NOT_BUILT[result.name]], ""
    note = "; ".join(text for text in (*known, result.note) if text)
    cells = [
        result.name,
        result.verdict,
        _listed(result.streams),
        _listed(result.ways),
        *("" if x is None else f"{x:.0e}" if x else "0" for x in numbers),
        *(_shown(result, side) for side in ("right", "left", "cache")),
        note,
    ]
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |\n"


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def main() -> None:
    """Check, say each result as it comes, write the table if all types were checked."""
    transformers.logging.set_verbosity_error()
    names = sys.argv[1:] or every_type()
    started, results = time.monotonic(), []
    for result in check_all(names):
        results.append(result)
        print(_row(result), end="", flush=True)
    if not sys.argv[1:]:
        TABLE.write_text(table(results, time.monotonic() - started), "utf-8")
    print(dict(Counter(result.verdict for result in results)))


if __name__ == "__main__":
    main()
