"""python -m tests.benchmarks: every figure that the README shows, measured on this machine."""

import argparse
import os
import platform
import sys
from functools import partial

from tests.benchmarks import (
    against,
    capture,
    compute,
    explore,
    gpu,
    kinds,
    knock,
    lines,
    memory,
    other_libraries,
    page,
    parts,
    parts_used,
    peers,
    recording,
    scan,
    scan_survival,
    startup,
    story,
    traced,
)
from tests.benchmarks.timing import HEADER


def main() -> None:
    """Measure the parts that the command line names, all of them without names, and print a line for each figure."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", default=["startup", "compute", "capture", "knock", "parts", "memory", "peers"]
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="shorter sequences, for a first look")
    options = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(HEADER)
    over: list[str] = []
    for part in options.parts:
        tables = {
            "memory": lambda: memory.lines(quick=options.quick),
            "page": lambda: page.lines(options.repeats, quick=options.quick),
            "peers": lambda: peers.lines(options.repeats, quick=options.quick),
            "scan": lambda: scan.lines(options.repeats, quick=options.quick),
            **{
                f"scan.{section}": partial(scan.lines, options.repeats, quick=options.quick, sections=[section])
                for section in scan.SECTIONS
            },
            "survival": lambda: scan_survival.lines(quick=options.quick),
            "modules": other_libraries.lines,
            "used": parts_used.lines,
            "traced": traced.lines,
            "explore": lambda: explore.lines(options.repeats, quick=options.quick),
        }
        if part in tables:
            for line in tables[part]():
                print(line, flush=True)
            continue
        modules = {
            "against": against,
            "startup": startup,
            "compute": compute,
            "capture": capture,
            "gpu": gpu,
            "kinds": kinds,
            "knock": knock,
            "lines": lines,
            "parts": parts,
            "recording": recording,
            "story": story,
        }
        for row in modules[part].rows(options.repeats, quick=options.quick):
            print(row, flush=True)
            over += [row.what] if part == "startup" and row.is_over else []
    if over:
        sys.exit(f"above its bar: {', '.join(over)}")


if __name__ == "__main__":
    main()
