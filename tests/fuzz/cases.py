"""Runs the cases of a kind, and collects what they find."""

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.findings import files_of, finding
from tests.fuzz.forked import import_all, run
from tests.fuzz.kinds import KINDS


@dataclass
class Found:
    """How often something was found, and the number and command line of the first case that did."""

    count: int
    number: int
    arguments: tuple[str, ...]


def run_cases(
    name: str, numbers: Iterable[int], seed: int = 0, keep: Path | None = None
) -> tuple[Counter[int], dict[str, Found]]:
    """The exit codes of the cases of a kind, and the findings in words.

    keep  a folder into which the files of each finding's first case go
    """
    import_all()
    codes, found = Counter[int](), dict[str, Found]()
    with tempfile.TemporaryDirectory(prefix="attn-fuzz-") as place:
        shared = Path(place, "shared")
        shared.mkdir()
        make = KINDS[name](shared)
        for number in numbers:
            folder = Path(place, "case")
            folder.mkdir()
            case = make(folder, random.Random(f"{seed}/{name}/{number}"))
            before = files_of(folder)
            done = run(case.arguments, folder, case.stdin, **case.variables)
            codes[done.code] += 1
            if what := finding(case, done, before, files_of(folder)):
                found.setdefault(what.replace(place, "..."), Found(0, number, case.arguments)).count += 1
                if keep is not None and not (keep / f"{name}-{number}").exists():
                    shutil.copytree(folder, keep / f"{name}-{number}")
            shutil.rmtree(folder)
    return codes, found
