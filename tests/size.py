"""The ratchet: sizes of the package and its tests, which only fall.

python -m tests.size           fails where a size is above that of tests/size.txt, and says by how much
python -m tests.size --lower   writes the sizes that have fallen into tests/size.txt
"""

import ast
import sys
from collections.abc import Iterable
from pathlib import Path

import click
from typer.main import get_command

from attn_cli.cli import app

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "tests" / "size.txt"
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def measured() -> dict[str, float]:
    """Each size by its name: lines, counts, and the share of lines that are docstrings in percent."""
    package = ROOT / "attn_cli"
    python = sorted(package.rglob("*.py"))
    texts = {path: path.read_text("utf-8") for path in python}
    nodes = [node for text in texts.values() for node in ast.walk(ast.parse(text))]
    docstrings = [ast.get_docstring(node, clean=False) for node in nodes if isinstance(node, _DOCUMENTED)]
    total = sum(map(_count, texts.values()))
    counts = option_counts()
    rooms: dict[str, float] = {}
    for path, text in texts.items():
        parts = path.relative_to(package).parts
        room = f"lines of {parts[0] if len(parts) > 1 else 'the root'}"
        rooms[room] = rooms.get(room, 0) + _count(text)
    others = (path for path in package.rglob("*") if path.suffix in {".c", ".h", ".js", ".css", ".html"})
    return {
        "package lines": total + _lines(others),
        "files": len(python),
        "classes": sum(isinstance(node, ast.ClassDef) for node in nodes),
        "docstring share %": round(
            100 * sum(text.count("\n") + 1 for text in docstrings if text is not None) / total, 1
        ),
        "fmt: skip": sum(text.count("fmt: skip") for text in texts.values()),
        "README lines": _lines([ROOT / "README.md"]),
        "guide lines": _lines(package.rglob("*.md")),
        "test lines": _lines((ROOT / "tests").rglob("*.py")),
        "golden lines": _lines(path for path in (ROOT / "tests/golden").rglob("*.*") if path.suffix != ".png"),
        "options of all commands": sum(counts.values()),
        "options of the largest": max(counts.values()),
        **dict(sorted(rooms.items())),
    }


def option_counts() -> dict[str, int]:
    """The options of each command, by its name; arguments and --help are none."""
    group = get_command(app)
    context = click.Context(group)
    commands = {name: group.get_command(context, name) for name in group.list_commands(context)}
    return {
        name: sum(each.param_type_name == "option" and each.name != "help" for each in command.params)
        for name, command in commands.items()
    }


def kept() -> dict[str, float]:
    """The sizes of tests/size.txt, which none may exceed."""
    rows = (line.rsplit(None, 1) for line in KEPT.read_text("utf-8").splitlines())
    return {name.strip(): float(value) for name, value in rows}


def exceeded(sizes: dict[str, float], limits: dict[str, float]) -> list[str]:
    """A line for each size above its limit; a size without a limit has the limit 0."""
    return [
        f"{name}: {value:g}, {value - limits.get(name, 0):g} above {limits.get(name, 0):g}"
        for name, value in sizes.items()
        if value > limits.get(name, 0)
    ]


def _lines(paths: Iterable[Path]) -> int:
    return sum(_count(path.read_text("utf-8", errors="replace")) for path in paths)


def _count(text: str) -> int:
    return len(text.splitlines())


def main() -> None:
    """Check the sizes, or lower those that are kept."""
    sizes, limits = measured(), kept()
    if over := exceeded(sizes, limits):
        sys.exit("\n".join(["larger than tests/size.txt allows:", *over]))
    if "--lower" in sys.argv:
        KEPT.write_text("".join(f"{name:26}{value:>8g}\n" for name, value in sizes.items()), "utf-8")


if __name__ == "__main__":
    main()
