"""`python -m tests.coverage [TYPE ...]` checks types, all by default, and writes RESULTS.md beside this file."""

import sys
import time
from collections import Counter
from datetime import date
from pathlib import Path

import torch
import transformers

from tests.coverage.apart import check_all
from tests.coverage.check import Result
from tests.coverage.known import KNOWN
from tests.coverage.tiny import every_type

TABLE = Path(__file__).with_name("RESULTS.md")
_VERDICTS = ("equal", "close", "different", "unreferenced", "no attention", "refused", "not built")
_HEAD = """# Architectures

Every model type that transformers {transformers} lists, built tiny from its configuration class with large random
weights, seen by `attn` in one forward pass, and compared with the attention that the model itself returns under its
eager implementation. Written by `python -m tests.coverage` on {day} with torch {torch}, in {minutes:.0f} minutes.

| verdict | types | meaning |
|---|--:|---|
| equal | {equal} | every returned tensor was seen, within 1e-5 |
| close | {close} | the same within 1e-4 |
| different | {different} | some returned tensor was not among those seen; the note says why |
| unreferenced | {unreferenced} | seen, rows valid, outputs unchanged; the model returns nothing to compare with |
| no attention | {no attention} | no softmax attention; `attn` says so |
| refused | {refused} | a layer can't be seen, and `attn` says which |
| not built | {not built} | no tiny model could be made here, mostly for want of a package or of sizes that fit |

*difference*: the largest between weights seen and returned. *outputs*: the largest between the model's outputs with
`attn` looking on and without, relative to the largest number of each. *layers*: attention modules by stream. *ways*:
calls by the way they were seen (`attn matrix --json` says it of every layer).

| type | verdict | layers | ways | difference | outputs | note |
|---|---|---|---|--:|--:|---|
"""


def table(results: list[Result], seconds: float) -> str:
    """The results as a page of Markdown."""
    verdicts = Counter(result.verdict for result in results)
    counts = {name: verdicts[name] for name in _VERDICTS}
    head = _HEAD.format(
        transformers=transformers.__version__, torch=torch.__version__, day=date.today(), minutes=seconds / 60, **counts
    )
    return head + "".join(_row(result) for result in results)


def _row(result: Result) -> str:
    numbers = ["" if x is None else f"{x:.0e}" if x else "0" for x in (result.difference, result.output)]
    note = KNOWN.get(result.name, "") or result.note
    cells = [result.name, result.verdict, _listed(result.streams), _listed(result.ways), *numbers, note]
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
