"""Values that fit their options go past Typer's validators; answers and errors are the same."""

import subprocess
import sys
from pathlib import Path

import pytest

from attn_cli.cli.kit.shell import commands
from tests.program import Run, attn, environment

LINES = [
    ["top", "river bank", "-k", "2", "--by", "value", "--json"],
    ["top", "river bank", "-k", "0"],
    ["top", "river bank", "-k", "two"],
    ["top", "river bank", "-k", "99999999999"],
    ["top", "river bank", "-k", "²"],
    ["top", "river bank", "--by", "weigth"],
    ["top", "river bank", "--hide", "river", "--hide", "sink", "--json"],
    ["compare", "river bank", "bank loan", "--json"],
    ["compare"],
    ["compute", "the cat", "--scale", "0.5", "--json"],
    ["compute", "the cat", "--scale", "half"],
    ["inspect", "river bank", "--image", "a", "--image", "b"],
    ["--version"],
]


@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_answers_and_errors_are_typers(line: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def shown(run: Run) -> tuple[int, bytes, str]:
        return run.code, run.bytes, run.errors

    quick = shown(attn(*line))
    monkeypatch.setattr(
        commands, "_process_value", lambda parameter, by_typer, context, value: by_typer(context, value)
    )
    assert quick == shown(attn(*line))


@pytest.mark.parametrize(
    "line",
    [["inspect", "river bank"], ["top", "river bank", "--by", "value"], ["compare", "a river", "a bank"],
     ["nearest", "bank"], ["compute", "the cat sat"]],
    ids=" ".join,
)  # fmt: skip
def test_no_validator_and_no_masked_array_is_imported(line: list[str]) -> None:
    code = (
        "import sys; sys.argv = ['attn', *sys.argv[1:]]\nfrom attn_cli.cli import main\n"
        "try:\n    main()\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *line], capture_output=True, text=True, env=environment(), check=True,
        cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert not {"pydantic", "numpy.ma"} & set(done.stderr.split())
