"""Bad input gets one line that says what, where and why, one that says what to do, its exit code, and no file."""

import json
import time
from pathlib import Path

import numpy as np
import pytest

from tests.program import attn, file_words, refused

LOAD, LIMIT, OUTPUT, USAGE = 3, 4, 5, 2

REFUSED = [
    (["inspect", " \n\t "], USAGE, "empty"),
    (["inspect", "zzqqy"], USAGE, "minilm"),
    (["inspect", "dog", "-m", "toy:nothing"], USAGE, "'nothing'"),
    (["inspect"], USAGE, "--file"),
    (["inspect", "--file", "b.txt"], USAGE, "b.txt"),
    (["inspect", "--file", "a\0b"], USAGE, "a␀b"),
    (["inspect", "river", "-l", "1"], USAGE, "layer 1"),
    (["inspect", "river", "-l", "one"], USAGE, "'one'"),
    (["heads", "river", "-H", "4"], USAGE, "head 4"),
    (["top", "river bank", "-t", "moon"], USAGE, "'moon'"),
    (["top", "river bank", "-t", "bank#2"], USAGE, "'bank'"),
    (["top", "river bank", "-k", "0"], USAGE, "'0'"),
    (["top", "river bank", "-k", "1e3"], USAGE, "'1e3'"),
    (["compute", "a", "--tol", "nan"], USAGE, "--tol"),
    (["matrix", "river", "-f", "xlsx"], USAGE, "'xlsx'"),
    (["matrix", "river", "--json", "-f", "csv"], USAGE, "csv"),
    (["matrix", "river", "-o", "a.xlsx"], USAGE, "'.xlsx'"),
    (["matrix", "river", "-f", "npy"], USAGE, "npy"),
    (["matrix", "river", "-o", "no/such/a.json"], OUTPUT, "no/such/a.json"),
    (["matrix", "river", "-f", "csv", "-o", "."], OUTPUT, "."),
    (["matrix", "river", "-f", "csv", "-o", "a\0.csv"], OUTPUT, "a␀.csv"),
    (["matrix", "river", "-m", "./nothing"], LOAD, "./nothing"),
    (["matrix", "river", "bank", "-t", "bank"], USAGE, 'attn matrix "river bank" -t bank'),
    (["top", "a bank", "the bank", "-m", "toy"], USAGE, 'attn compare "a bank" "the bank" -w bank -m toy'),
    (["top", "he sat", "they went"], USAGE, 'printf \'%s\\n\' "he sat" "they went" | attn top --lines'),
    (["matrix", "river", "--modle", "toy"], USAGE, "--modle"),
    (["compute", "--alibi"], USAGE, "--positions HOW? alibi"),
    (["matricks"], USAGE, "matrix"),
    (["river bank"], USAGE, 'attn inspect "river bank"'),
    (["a$b [/]\x1b[31m"], USAGE, "attn inspect $'a$b [/]\\u001b[31m'"),
    (["word " * 999], USAGE, "word word"),
    (["schema", "nothing"], USAGE, "'nothing'"),
    (["guide", "ladde"], USAGE, "ladder"),
    (["guide", "../guide/tour"], USAGE, "tour"),
    (["heads", "--kinds", "--sort", "entropy"], USAGE, "--sort"),
    (["heads", "--kinds", "--pair", "a"], USAGE, "--pair"),
    (["heads", "--kinds", "-m", "toy:the-cat-sat"], USAGE, "too few words"),
    (["cost", "-n", "5", "-m", "model.gguf"], LOAD, ".gguf"),
    (["compute"], USAGE, "--q FILE"),
    (["compute", "--q", "q.npy"], USAGE, "q.npy"),
    (["compute", "--q", "-", "--k", "-"], USAGE, "-"),
]


@pytest.mark.parametrize(("arguments", "code", "word"), REFUSED, ids=[" ".join(each[0])[:50] for each in REFUSED])
def test_bad_input_is_refused_in_words(arguments: list[str], code: int, word: str, here: Path) -> None:
    before = sorted(here.iterdir())
    refused(attn(*arguments), code, word)
    assert sorted(here.iterdir()) == before


Q = np.arange(8.0).reshape(2, 4)


def test_help_is_a_command_too() -> None:
    for shown, options in ((["help"], ["--help"]), (["help", "top"], ["top", "--help"]), (["--debug"], [])):
        assert attn(*shown).bytes == attn(*options).bytes != b""
        assert attn(*shown).code == 0


@pytest.mark.parametrize(
    ("shapes", "options", "word"),
    [
        ({"q": (2, 4), "k": (3, 5)}, [], "(3, 5)"),
        ({"q": (2, 4), "k": (4, 3)}, [], "transposed"),
        ({"q": (2, 4), "k": (3, 4), "v": (2, 4)}, [], "v has 2 rows"),
        ({"q": (4, 2, 4), "k": (3, 2, 4)}, [], "3 heads"),
        ({"q": (2, 1, 2, 4), "k": (3, 1, 2, 4)}, [], "batch"),
        ({"q": (4, 2, 4), "k": (2, 2, 4)}, ["--kv-heads", "4"], "--kv-heads 4"),
        ({"q": (2, 3), "mask": (3, 2), "k": (3, 3)}, [], "(3, 2)"),
        ({"q": (2, 3), "mask": (2, 3)}, [], "mask"),
        ({"q": (2, 3)}, ["--mask", "window:0"], "'window:0'"),
        ({"q": (3, 1, 2, 3)}, ["--mask", "lengths:1,2"], "2 lengths"),
        ({"q": (2, 3)}, ["--mask", "bool:no.npy"], "no.npy"),
        ({"q": (2, 3)}, ["--scale", "big"], "'big'"),
        ({"q": (2, 3)}, ["--softcap", "0"], "--softcap 0"),
        ({"q": (2, 2, 3)}, ["--sink", "1,2,3"], "3 numbers"),
        ({"q": (2, 3)}, ["--positions", "alibi:steep"], "'steep'"),
        ({"q": (2, 3)}, ["--weights", "uniform", "--scale", "2"], "fixed weights"),
        ({"q": (2, 3)}, ["--projections", "1"], "a projection needs embeddings"),
        ({"q": (2, 3)}, ["--positions", "rotary"], "3 wide"),
        ({"q": (2, 4)}, ["--positions", "learned"], "'learned'"),
        ({"x": (2, 4), "context": (3, 5), "wk": (4, 4)}, [], "(3, 5)"),
        ({"x": (2, 4)}, ["the cat", "--quiet"], "--x"),
        ({"q": (2, 4)}, ["--heads", "3"], "3 heads"),
        ({"x": (2, 4), "wq": (3, 4)}, [], "(3, 4)"),
        ({"q": (2, 4), "wq": (4, 4)}, [], "--x"),
    ],
    ids=str,
)
def test_shapes_that_do_not_fit_are_named(
    shapes: dict[str, tuple[int, ...]], options: list[str], word: str, here: Path
) -> None:
    for name, shape in shapes.items():
        np.save(f"{name}.npy", np.ones(shape) / 2)
    before = sorted(here.iterdir())
    refused(attn("compute", *options, *file_words(shapes), "-o", "out.npz"), USAGE, word)
    assert sorted(here.iterdir()) == before


def test_an_existing_file_is_replaced_only_by_force(here: Path) -> None:
    Path("a.json").write_text("old")
    refused(attn("top", "river bank", "-o", "a.json"), OUTPUT, "a.json exists", "--force")
    assert Path("a.json").read_text() == "old"
    assert attn("top", "river bank", "-o", "a.json", "--force").code == 0
    assert json.loads(Path("a.json").read_text())["schema"] == "attn.top/3"
    assert [file.name for file in here.iterdir()] == ["a.json"]


def test_a_bug_is_told_as_one_and_debug_shows_where(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("a\x1b[31mb")

    monkeypatch.setattr("attn_cli.cli.kit.run.text_run.reduce", broken)
    run = attn("top", "river bank")
    assert run.code == 70
    assert run.errors.splitlines()[0] == r"attn: a bug: KeyError: 'a\x1b[31mb'"
    assert "Traceback" in attn("top", "river bank", "--debug").errors


def test_too_little_memory_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("attn_cli.cli.kit.run.text_run.reduce", greedy)
    refused(attn("top", "river bank"), LIMIT, "out of memory")


@pytest.mark.parametrize(
    ("arguments", "reads"),
    [
        (["heads", "my rep.txt"], '--file "my rep.txt"'),
        (["matrix", "rep.npz"], "attn compute --q rep.npz"),
        (["heads", "model", "-H", "0"], "-m model"),
        (["heads", "scanned"], "attn scan show scanned"),
    ],
    ids=str,
)
def test_a_path_in_place_of_a_text_is_refused_with_what_reads_it(arguments: list[str], reads: str, here: Path) -> None:
    for name in ("my rep.txt", "river"):
        Path(name).write_text("he sat on the river bank")
    np.savez("rep.npz", q=Q)
    for folder, file in (("model", "config.json"), ("scanned", "scan.json"), ("bank", "letter")):
        Path(folder).mkdir()
        Path(folder, file).touch()
    refused(attn(*arguments), USAGE, arguments[1], reads)
    assert attn("heads", "river bank").errors == attn("heads", "bank").errors == attn("heads", "river").errors == ""


def test_names_of_many_folders_and_widths_of_many_digits_take_no_time() -> None:
    started = time.process_time()
    refused(attn("top", "river bank", "-m", "a/" * 40_000), 3, "name too long")
    assert time.process_time() - started < 5  # it was 30 and more, for every way to shorten the name was measured
    assert attn("top", "river bank", env={"COLUMNS": "9" * 5000}).code == 0
