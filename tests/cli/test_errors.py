"""Bad input gets one line that says what, where and why, one that says what to do, its exit code, and no file."""

import json
import pickle
import shlex
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.program import attn, refused

LOAD, LIMIT, OUTPUT, USAGE = 3, 4, 5, 2


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["inspect", ""], USAGE, ["the text is empty"]),
        (["inspect", " \n\t "], USAGE, ["the text is empty"]),
        (["inspect", "zzqqy"], USAGE, ["no word of the text is in the table minilm", "22,016 words"]),
        (["inspect", "dog", "-m", "toy:the-cat-sat"], USAGE, ["it knows the, cat, sat"]),
        (["inspect", "dog", "-m", "toy:nothing"], USAGE, ["'nothing'", "minilm, the-cat-sat"]),
        (["inspect", "dog", "--pair", "cat"], USAGE, ["--pair needs a model"]),
        (["inspect"], USAGE, ["no text", "in quotes or with --file FILE"]),
        (["inspect", "a", "--file", "b"], USAGE, ["at once"]),
        (["inspect", "--file", "b.txt"], USAGE, ["can't read b.txt: No such file or directory"]),
        (["inspect", "--file", "."], USAGE, ["can't read .: Is a directory"]),
        (["inspect", "--file", "a\0b"], USAGE, ["can't read a␀b"]),
        (["inspect", "river", "-l", "1"], USAGE, ["there is no attention layer 1", "layers with attention: 0"]),
        (["inspect", "river", "-l", "-2"], USAGE, ["there is no attention layer -2"]),
        (["inspect", "river", "-l", "one"], USAGE, ["--layer 'one'", "0,2   4-7   all"]),
        (["heads", "river", "-H", "4"], USAGE, ["there is no head 4", "heads: 0-3"]),
        (["heads", "river", "-H", "3-1"], USAGE, ["--head '3-1'"]),
        (["top", "river bank", "-t", "moon"], USAGE, ["no token 'moon' in the text", "0 river 1 bank"]),
        (["top", "river bank", "-t", ""], USAGE, ["no token '' in the text", "0 river 1 bank"]),
        (["compare", "river bank", "bank", "--word", ""], USAGE, ["no token '' in the text"]),
        (["learn", "apple phone", "--word", "apple", "--to", ""], USAGE, ["no '' in 'apple phone'"]),
        (["top", "river bank", "-t", "2"], USAGE, ["there is no token 2", "0 river 1 bank"]),
        (["top", "river bank", "-t", "bank#2"], USAGE, ["'bank' occurs 1 time,", "0 river 1 bank"]),
        (["top", "river bank", "-k", "0"], USAGE, ["'--top' / '-k'", "greater than or equal to 1, not '0'"]),
        (["top", "river bank", "-k", "1e3"], USAGE, ["'--top' / '-k'", "valid integer", "not '1e3'"]),
        (["compute", "a", "--softcap", "1,5"], USAGE, ["'--softcap'", "valid number", "not '1,5'"]),
        (["compute", "a", "--tol", "nan"], USAGE, ["'--tol'", "greater than or equal to 0"]),
        (["cost", "1000"], USAGE, ["unexpected extra argument", "1000", "try: attn cost "]),
        (["cost", "-n", "5", "-m", "model.gguf"], LOAD, ["no config.json in a .gguf file"]),
        (["matrix", "river", "--pool", "min"], USAGE, ["--pool", "'min' is not one of 'max', 'mean'"]),
        (["matrix", "river", "--color-scale", "cubic"], USAGE, ["--color-scale", "'cubic' is not one of"]),
        (["matrix", "river", "--color", "no"], USAGE, ["--color", "'no' is not one of 'auto', 'always', 'never'"]),
        (["matrix", "river", "-f", "xlsx"], USAGE, ["unknown format 'xlsx'", "terminal, json"]),
        (["inspect", "-f", "my notes.txt"], USAGE, ["unknown format", "a text to read: --file \"my notes.txt\""]),
        (["matrix", "river", "--json", "-f", "csv"], USAGE, ["--json and --format csv at once"]),
        (["matrix", "river", "-o", "a.xlsx"], USAGE, ["no format belongs to '.xlsx'", "--format"]),
        (["matrix", "river", "-o", "a"], USAGE, ["a name without suffix"]),
        (["matrix", "river", "-f", "npy"], USAGE, ["npy holds one array"]),
        (["matrix", "river", "-o", "no/such/a.json"], OUTPUT, ["can't write no/such/a.json: No such file"]),
        (["matrix", "river", "-o", "/proc/attn.json"], OUTPUT, ["can't write /proc/attn.json"]),
        (["matrix", "river", "-f", "csv", "-o", "new/"], OUTPUT, ["new/ is a folder"]),
        (["matrix", "river", "-f", "csv", "-o", "."], OUTPUT, [". is a folder"]),
        (["matrix", "river", "-f", "csv", "-o", "a\0.csv"], OUTPUT, ["can't write a␀.csv"]),
        (["matrix", "river", "-m", "./nothing"], LOAD, ["./nothing"]),
        (["matrix", "-1 river"], USAGE, ["No such option: -1", "attn matrix --help"]),
        (["matrix", "river", "bank"], USAGE, ["unexpected extra", "goes in quotes", 'attn matrix "river bank"']),
        (["matrix", "river", "--modle", "toy"], USAGE, ["--modle", "--model", "attn matrix --help"]),
        (["tour"], USAGE, ["no command 'tour'", "try: attn inspect tour "]),
        (["show", "reviews"], USAGE, ["no command 'show'", "did you mean scan show?"]),
        (["list"], USAGE, ["no command 'list'", "all commands: attn --help\n"]),
        (["matricks"], USAGE, ["no command 'matricks'", "did you mean matrix?", "attn --help"]),
        (["river bank"], USAGE, ["no command 'river bank'", 'try: attn inspect "river bank" ']),
        (["river", "bank", "-m", "gpt2"], USAGE, ["no command 'river'", "try: attn inspect river "]),
        (["a$b [/]\x1b[31m"], USAGE, ["try: attn inspect $'a$b [/]\\u001b[31m' "]),
        (["-"], USAGE, ["try: attn inspect - "]),
        (["word " * 999], USAGE, ["word word"]),
        (["bisect", "mine.npy", "--expect", "x.npy"], USAGE, ["No such option: --expect"]),
        (["bisect", "mine.npy"], USAGE, ["bisect needs the model", "--expect mine.npy"]),
        (["-m", "gpt2", "river"], USAGE, ["No such option: -m", "try: attn inspect "]),
        (["help", "tpo"], USAGE, ["no command 'tpo'", "did you mean top?"]),
        (["schema", "nothing"], USAGE, ["no schema is named 'nothing'", "inspect", "matrix"]),
        (["compute"], USAGE, ["no matrix", "--q FILE"]),
        (["compute", "a", "--positions", "rotary:inf"], USAGE, ["base inf of rotary"]),
        (["compute", "--q", "q.npy", "--color", "no"], USAGE, ["--color", "'no' is not one of"]),
        (["compute", "--q", "q.npy"], USAGE, ["no file q.npy"]),
        (["compute", "--q", "-", "--k", "-"], USAGE, ["more than once"]),
    ],
    ids=lambda value: " ".join(value)[:50] if isinstance(value, list) else None,
)  # fmt: skip
def test_bad_input_is_refused_in_words(arguments: list[str], code: int, words: list[str], here: Path) -> None:
    before = sorted(here.iterdir())
    refused(attn(*arguments), code, *words)
    assert sorted(here.iterdir()) == before


Q = np.arange(8.0).reshape(2, 4)


def test_help_is_a_command_too() -> None:
    for shown, options in ((["help"], ["--help"]), (["help", "top"], ["top", "--help"]), (["--debug"], [])):
        assert attn(*shown).bytes == attn(*options).bytes != b""
        assert attn(*shown).code == 0


def _whole(array: np.ndarray = Q) -> bytes:
    np.save("whole.npy", array)
    return Path("whole.npy").read_bytes()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("q.npy", lambda: b"", ["q.npy is empty"]),
        ("q.npy", lambda: _whole()[:-9], ["q.npy"]),
        ("q.npy", lambda: _whole(np.array([[{}]], dtype=object)), ["Python objects"]),
        ("q.npy", lambda: pickle.dumps([[1.0, 2.0]]), ["q.npy"]),
        ("q.npy", lambda: _whole(np.arange(3.0)), ["shape (3,)", "at least 2 axes"]),
        ("q.npy", lambda: _whole(np.array([[1, np.nan], [np.inf, np.nan]])), ["2 NaN and 1 Inf among 4", "[0, 1]"]),
        ("q.csv", lambda: b"1,2\n3\n", ["q.csv"]),
        ("q.csv", lambda: b"1,two\n3,4\n", ["q.csv"]),
        ("q.json", lambda: b"[[1, 2], [3]]", ["q.json"]),
        ("q.json", lambda: b"[[1, 2], [3,", ["q.json"]),
        ("q.npz", lambda: b"PK\3\4 and no more", ["q.npz"]),
        ("q.safetensors", lambda: b"\xff" * 30, ["q.safetensors"]),
        ("q.png", lambda: b"\x89PNG\r\n\x1a\n" + b"\0" * 50, ["PNG"]),
    ],
)
def test_a_bad_file_is_refused_in_words(name: str, content: Callable[[], bytes], words: list[str], here: Path) -> None:
    Path(name).write_bytes(content())
    before = sorted(here.iterdir())
    refused(attn("compute", "--q", name, "-o", "out.npz"), USAGE, *words)
    assert sorted(here.iterdir()) == before


@pytest.mark.parametrize(
    ("shapes", "options", "words"),
    [
        ({"q": (2, 4), "k": (3, 5)}, [], ["k has head size 5 but q has 4", "(2, 4)", "(3, 5)"]),
        ({"q": (2, 4), "k": (4, 3)}, [], ["k has 4 rows: is it transposed?"]),
        ({"q": (2, 4), "k": (3, 4), "v": (2, 4)}, [], ["v has 2 rows but k has 3"]),
        ({"q": (4, 2, 4), "k": (3, 2, 4)}, [], ["q has 4 heads, which the 3 heads of k don't divide"]),
        ({"q": (4, 2, 4), "k": (2, 2, 4), "v": (4, 2, 4)}, [], ["v has 4 heads but k has 2"]),
        ({"q": (2, 1, 2, 4), "k": (3, 1, 2, 4)}, [], ["the batch axes differ"]),
        ({"q": (2, 4), "k": (3, 4), "v": (5, 3)}, [], ["v has 5 rows but k has 3", "v has as many columns: is it"]),
        (
            {"q": (4, 2, 4), "k": (2, 2, 4)},
            ["--kv-heads", "4"],
            ["--kv-heads 4 but k has shape (2, 2, 4): 2 key heads"],
        ),
        ({"q": (2, 4), "k": (3, 4)}, ["--heads", "2", "--kv-heads", "1"], ["--kv-heads 1 but k is 4 wide"]),
        ({"q": (2, 3), "mask": (3, 2), "k": (3, 3)}, [], ["mask has shape (3, 2)", "2 x 3", "is it transposed?"]),
        ({"q": (2, 3), "bias": (2, 3)}, [], ["bias has shape (2, 3) but q and k make 2 x 2"]),
        ({"q": (2, 3)}, ["--mask", "window:0"], ["--mask 'window:0' needs a whole number above 0"]),
        ({"q": (2, 3)}, ["--mask", "dilated:2:0"], ["needs 2 whole numbers above 0", "--mask dilated:3:2"]),
        ({"q": (2, 3)}, ["--mask", "prefix:x"], ["example: --mask prefix:2"]),
        ({"q": (2, 3)}, ["--mask", "lengths:3"], ["longer than the 2 keys"]),
        ({"q": (3, 1, 2, 3)}, ["--mask", "lengths:1,2"], ["2 lengths for 3 batch entries"]),
        ({"q": (2, 3)}, ["--mask", "bool:no.npy"], ["neither a mask nor a file"]),
        ({"q": (2, 3)}, ["--scale", "big"], ["--scale 'big' is not a number", "off"]),
        ({"q": (2, 3)}, ["--softcap", "0"], ["--softcap 0 is not above 0"]),
        ({"q": (2, 2, 3)}, ["--sink", "1,2,3"], ["--sink has 3 scores for 2 heads"]),
        ({"q": (2, 2, 3), "sink": (1, 3)}, [], ["sink has 3 numbers for 2 heads"]),
        ({"q": (2, 3)}, ["--positions", "alibi:steep"], ["'steep' is not numbers"]),
        ({"q": (2, 3)}, ["--fixed", "uniform", "--scale", "2"], ["--fixed ignores scores"]),
        ({"q": (2, 3)}, ["--sink", "1", "--no-softmax"], ["--no-softmax has none"]),
        ({"q": (2, 3)}, ["--random-projections", "1"], ["--random-projections needs embeddings", "--x FILE"]),
        ({"q": (2, 3)}, ["--latent", "2", "--random-projections", "1"], ["needs embeddings"]),
        (
            {"x": (2, 4)},
            ["--latent", "2"],
            ["--latent is a size of projections that are drawn", "--random-projections"],
        ),
        ({"x": (2, 4)}, ["--absorb"], ["--absorb is for latent keys"]),
        ({"q": (2, 3)}, ["--positions", "rotary"], ["a head is 3 wide", "an even size"]),
        ({"q": (2, 4)}, ["--positions", "learned"], ["--positions 'learned' is unknown", "sinusoidal, rotary"]),
        ({"q": (2, 4)}, ["--positions", "sinusoidal"], ["--positions sinusoidal needs embeddings"]),
        (
            {"x": (2, 5)},
            ["--random-projections", "1", "--heads", "2"],
            ["x is 5 wide, which 2 heads don't", "--head-dim D"],
        ),
        ({"x": (2, 4), "context": (3, 5), "wk": (4, 4)}, [], ["wk has shape (4, 4) but context has shape (3, 5)"]),
        ({}, ["the cat", "-m", "gpt2"], ["gpt2 is not a table of word vectors"]),
        ({"x": (2, 4)}, ["the cat", "--quiet"], ["a text and --x at once"]),
        ({"q": (2, 4)}, ["the cat"], ["a text and --q, --k or --v at once"]),
        ({"q": (2, 4)}, ["--heads", "3"], ["q is 4 wide, which 3 heads don't divide"]),
        ({"q": (2, 4), "k": (2, 3)}, ["--heads", "2"], ["k is 3 wide but a head of q is 2 wide"]),
        ({"q": (2, 4), "v": (2, 3)}, ["--heads", "2"], ["v is 3 wide"]),
        ({"q": (2, 4), "mask": (2, 3)}, [], ["mask has shape (2, 3) but q and k make 2 x 2"]),
        ({"q": (3, 2, 4), "mask": (2, 2, 2)}, [], ["mask has shape (2, 2, 2) but q has batch and head axes (3,)"]),
        ({"q": (2, 4), "mask": (2, 2, 2)}, [], ["mask has shape (2, 2, 2)"]),
        ({"x": (2, 4), "wq": (3, 4)}, [], ["wq has shape (3, 4) but x has shape (2, 4)"]),
        ({"x": (2, 4), "wq": (3, 4)}, [], ["did you mean its transpose?"]),
        ({"x": (2, 4), "wq": (2, 4, 4)}, [], ["wq has shape (2, 4, 4)"]),
        ({"x": (2, 4), "wo": (3, 4)}, [], ["wo has shape (3, 4) but the joined heads are 4 wide"]),
        ({"x": (2, 4), "wo": (2, 4, 4)}, [], ["wo has shape (2, 4, 4)"]),
        ({"x": (2, 4), "wo": (4, 4)}, ["--heads", "2", "-H", "0"], ["the output mixes all heads", "leave out --head"]),
        ({"x": (2, 4), "q": (2, 4)}, [], ["at once"]),
        ({"q": (2, 4), "wq": (4, 4)}, [], ["--x, which is missing"]),
        ({"q": (2, 4)}, ["-H", "1"], ["there is no head 1"]),
        ({"q": (2, 4)}, ["--mask", "diagonal"], ["--mask 'diagonal'", "causal"]),
        ({"q": (2, 4)}, ["--scale", "nan"], ["--scale nan"]),
        ({"q": (2, 4)}, ["--heads", "0"], ["'--heads'"]),
    ],
)
def test_shapes_that_do_not_fit_are_named(
    shapes: dict[str, tuple[int, ...]], options: list[str], words: list[str], here: Path
) -> None:
    arguments = list(options)
    for name, shape in shapes.items():
        np.save(f"{name}.npy", np.ones(shape) / 2)
        arguments += [f"--{name}", f"{name}.npy"]
    before = sorted(here.iterdir())
    refused(attn("compute", *arguments, "-o", "out.npz"), USAGE, *words)
    assert sorted(here.iterdir()) == before


def test_an_existing_file_is_replaced_only_by_force(here: Path) -> None:
    Path("a.json").write_text("old")
    refused(attn("top", "river bank", "-o", "a.json"), OUTPUT, "a.json exists", "--force")
    assert Path("a.json").read_text() == "old"
    assert attn("top", "river bank", "-o", "a.json", "--force").code == 0
    assert json.loads(Path("a.json").read_text())["schema"] == "attn.top/2"
    assert [file.name for file in here.iterdir()] == ["a.json"]


def test_an_existing_file_survives_a_failure(here: Path) -> None:
    Path("a.json").write_text("old")
    assert attn("top", "river", "-t", "moon", "-o", "a.json", "--force").code == USAGE
    assert Path("a.json").read_text() == "old"
    assert [file.name for file in here.iterdir()] == ["a.json"]


def test_a_bug_is_told_as_one_and_debug_shows_where(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("a\x1b[31mb")

    monkeypatch.setattr("attn_cli.cli.kit.run.texts_visit.reduce", broken)
    run = attn("top", "river bank")
    assert run.code == 70
    assert run.errors.splitlines()[0] == r"attn: a bug: KeyError: 'a\x1b[31mb'"
    assert "Traceback" in attn("top", "river bank", "--debug").errors


def test_too_little_memory_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("attn_cli.cli.kit.run.texts_visit.reduce", greedy)
    refused(attn("top", "river bank"), LIMIT, "out of memory")


@pytest.mark.parametrize(
    ("arguments", "problem", "reads"),
    [
        (["heads", "rep.txt", "-H", "0"], "rep.txt is a file", "--file rep.txt"),
        (["matrix", "rep.npz"], "rep.npz is a file", "attn compute --q rep.npz"),
        (["heads", "my rep.txt"], "my rep.txt is a file", '--file "my rep.txt"'),
        (["compute", "rep.txt"], "rep.txt is a file", '"$(cat rep.txt)"'),
        (["top", "./letter"], "./letter is a file", "--file ./letter"),
        (["layers", "./model"], "./model is a folder", "-m ./model"),
        (["heads", "model", "-H", "0"], "model is a folder", "-m model"),
        (["inspect", "t.vec"], "t.vec is a file", "-m t.vec"),
        (["heads", "scanned"], "scanned is a folder", "attn scan show scanned"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)  # fmt: skip
def test_a_path_in_place_of_a_text_is_refused_with_what_reads_it(
    arguments: list[str], problem: str, reads: str, here: Path
) -> None:
    for name in ("rep.txt", "my rep.txt", "letter", "river"):
        Path(name).write_text("he sat on the river bank")
    np.savez("rep.npz", q=Q)
    Path("t.vec").write_text("a 1 2\ntext 3 4\n")
    for folder, file in (("model", "config.json"), ("scanned", "scan.json"), ("bank", "letter")):
        Path(folder).mkdir()
        Path(folder, file).touch()
    refused(attn(*arguments), USAGE, f"{problem}, not a text\n      what reads it: {reads}\n")
    assert attn("heads", "river bank").errors == attn("heads", "bank").errors == attn("heads", "river").errors == ""


def test_a_file_of_arrays_holds_no_text(here: Path) -> None:
    np.savez("rep.npz", q=Q)
    refused(attn("inspect", "--file", "rep.npz"), USAGE, "rep.npz holds no text", "attn compute --q rep.npz")


def test_the_example_of_a_hint_works() -> None:
    run = attn("matrix", "river", "bank")
    refused(run, USAGE, "a text of several words goes in quotes")
    advised = run.errors.split("try: attn ")[1].split("    all options")[0].strip()
    assert attn(*shlex.split(advised)).code == 0


def test_near_words_are_named() -> None:
    refused(attn("nearest", "bnak"), USAGE, "bnak (bank?)")
    refused(attn("top", "the river bank", "-t", "bnak"), USAGE, "did you mean 'bank'?")
    assert "left out: rivre (river?)" in attn("heads", "the rivre bank").errors


def test_names_of_many_folders_and_widths_of_many_digits_take_no_time() -> None:
    started = time.process_time()
    refused(attn("top", "river bank", "-m", "a/" * 40_000), 3, "name too long")
    assert time.process_time() - started < 5  # it was 30 and more, for every way to shorten the name was measured
    assert attn("top", "river bank", env={"COLUMNS": "9" * 5000}).code == 0
