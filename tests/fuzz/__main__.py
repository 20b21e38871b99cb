"""`python -m tests.fuzz [KIND ...]`: spoilt files by number, and what is found with them.

Every case runs in a forked child with limits of time and memory. A finding is told once, with how often it came, the
number of its first case and its command line; --keep holds its files.
"""

import argparse
import os
import sys
from pathlib import Path

os.environ |= {
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}  # forks have one thread

from tests.fuzz.cases import run_cases
from tests.fuzz.kinds import KINDS


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.fuzz", description="Hand spoilt files to the command line.")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--cases", type=int, default=2000, help="cases of every kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--keep", type=Path, help="folder for the files of findings")
    options = parser.parse_args()
    failed = 0
    for name in options.kinds or KINDS:
        codes, found = run_cases(name, range(options.first, options.first + options.cases), options.seed, options.keep)
        answers = ", ".join(f"{count} ended in {code}" for code, count in sorted(codes.items()))
        print(f"{name}: {sum(codes.values())} cases, {answers}; {len(found)} findings", flush=True)
        for what, each in found.items():
            print(f"  {each.count} x {what}\n      case {each.number}: attn {' '.join(each.arguments)}", flush=True)
        failed += len(found)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
