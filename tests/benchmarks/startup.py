"""The time of commands that need no model."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.benchmarks.timing import Row, compared, process


def rows(repeats: int, *, quick: bool) -> Iterator[Row]:
    """Fresh processes against the bare imports that they can't do without."""
    attn = [str(Path(sys.executable).with_name("attn"))]
    seconds, ratios = compared(
        process([sys.executable, "-c", "import typer, rich.console"]),
        {name: process([*attn, name]) for name in ("--help", "--version")},
        repeats,
    )
    yield from (Row(f"attn {name}", "import typer, rich.console", seconds, ratio, 3) for name, ratio in ratios.items())
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "q.npy", np.eye(4))
        commands = {
            'inspect "river bank"': [*attn, "inspect", "river bank"],
            "compute, 4 x 4": [*attn, "compute", "--q", f"{folder}/q.npy"],
        }
        seconds, ratios = compared(
            process([sys.executable, "-c", "import typer, rich.table, numpy"]),
            {name: process(command) for name, command in commands.items()},
            repeats,
        )
    yield from (Row(f"attn {name}", "import typer, rich.table, numpy", seconds, r, 4) for name, r in ratios.items())
