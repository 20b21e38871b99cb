"""python -m tests.tools.benchmarks: every figure that the README shows, measured on this machine."""

import argparse
import os
import platform
import sys
from importlib import import_module

from tests.tools.benchmarks.timing import HEADER

_USUAL = ("startup", "compute", "capture", "knock", "parts", "memory")
_MORE = ("scan",)


def main() -> None:
    """Measure the parts that the command line names, the usual ones without names, and print a line for each figure."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", default=_USUAL, metavar="PART", help=", ".join((*_USUAL, *_MORE)))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="shorter sequences, for a first look")
    options = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(HEADER)
    over: list[str] = []
    for part in options.parts:
        for row in import_module(f"tests.tools.benchmarks.{part}").rows(options.repeats, quick=options.quick):
            print(row, flush=True)
            over += [row.what] if part == "startup" and row.is_over else []
    if over:
        sys.exit(f"above its bar: {', '.join(over)}")


if __name__ == "__main__":
    main()
