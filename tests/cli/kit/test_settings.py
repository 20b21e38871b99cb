"""Defaults from ATTN_* variables and a TOML file: which goes first, what is refused, and what attn env says."""

import os
from pathlib import Path

import pytest

from tests.nobody import as_nobody, root_alone
from tests.program import attn, refused

ENTRY = ["matrix", "river bank", "-H", "0"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "attn" / "config.toml"


def env(file: Path, text: str = "", **variables: str) -> dict[str, str]:
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return {"XDG_CONFIG_HOME": str(file.parent.parent), "ATTN_CONFIG": "", "COLUMNS": "80"} | variables


def test_the_file_the_variable_and_the_option_in_this_order(file: Path) -> None:
    text = 'color_scale = "row"\n'
    both = {"env": env(file, text, ATTN_COLOR_SCALE="log", FORCE_COLOR="1"), "terminal": True}
    assert "row scale" in attn(*ENTRY, env=env(file, text, FORCE_COLOR="1"), terminal=True).text
    assert "log scale" in attn(*ENTRY, **both).text
    assert "sqrt scale" in attn(*ENTRY, "--color-scale", "sqrt", **both).text


def test_a_model_is_for_commands_that_take_one(file: Path) -> None:
    other = env(file, 'model = "toy:the-cat-sat"')
    assert "toy:the-cat-sat" in attn("inspect", "the cat", env=other).text
    assert attn("nearest", "cat", "-k", "1", env=other).code == 0
    model = env(file, 'model = "./no-such-model"')
    refused(attn("inspect", "the cat", env=model), 3, "./no-such-model")
    assert attn("nearest", "cat", "-k", "1", env=model).code == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('modle = "gpt2"', "there is no setting 'modle'\n      did you mean model?"),
        ("model = 3", "model must be text in quotes"),
        ('offline = "yes"', "offline must be true or false"),
        ("model = ", "can't be read"),
        ('model = "\udcff"', "can't be read"),
    ],
)
def test_a_file_that_is_wrong_is_named(file: Path, text: str, words: str) -> None:
    variables = env(file)
    file.write_text(text, errors="surrogateescape")
    run = attn(*ENTRY, env=variables)
    refused(run, 2, "config.toml")
    assert words in run.errors


def test_env_says_what_is_set_and_where(file: Path) -> None:
    result = attn("env", "--json", env=env(file, 'dtype = "float32"', ATTN_QUIET="1")).json["result"]
    assert result["config"] == str(file)
    assert result["settings"] == [
        {"name": "dtype", "value": "float32", "origin": str(file)},
        {"name": "quiet", "value": "True", "origin": "ATTN_QUIET"},
    ]


def test_plain_is_words_in_lines(file: Path) -> None:
    run = attn("top", "river bank", "-k", "1", "-H", "0", "--plain", env={"FORCE_COLOR": "1"})
    assert run.lines[-1].startswith("layer 0, head 0, query 1 bank, rank 0, key 1 bank, score 1.640, weight 0.816")
    assert run.text.isascii()


def test_plain_is_spelled_in_one_way(file: Path) -> None:
    line = 'attn top "a plain" -k 1 --plain\n'
    for words in (["-f", "plain"], ["--format=plain"]):
        refused(attn("top", "a plain", *words, "-k", "1"), 2, "--format plain is called --plain", line)
    refused(attn("top", "a plain", "-k", "1", env={"ATTN_PLAIN": "1"}), 2, "ATTN_PLAIN", line)
    asked = attn("top", "river bank", "--plain").text
    assert attn("top", "river bank", env=env(file, "plain = true\n")).text == asked
    assert attn("top", "river bank", env={"ATTN_PLAIN": "0"}).text != asked


def test_plain_leaves_out_what_there_is_none_of() -> None:
    line = attn("heads", "river bank", "--plain", "-H", "0").lines[-1]
    assert "self weight 0.816" in line and "induction" not in line


@pytest.mark.parametrize(
    ("name", "words"), [("", "directory"), ("none.toml", "No such file"), ("pipe", "a pipe"), ("/dev/zero", "can't be")]
)
def test_a_file_that_is_none_is_named_and_never_waited_for(tmp_path: Path, name: str, words: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    refused(attn(*ENTRY, env={"ATTN_CONFIG": str(tmp_path / name)}), 2, words)


def test_a_variable_that_is_nearly_one_is_noted() -> None:
    run = attn("top", "river bank", env={"ATTN_MODLE": "gpt2", "ATTN_ELSE": "1", "ATTN_DEBUG": ""})
    assert (run.code, run.errors) == (0, "attn: ATTN_MODLE is not read; did you mean ATTN_MODEL?\n")
    assert attn("top", "river bank", "-q", env={"ATTN_MODLE": "gpt2"}).errors == ""


def test_no_settings_at_all() -> None:
    assert attn(*ENTRY, env={"ATTN_CONFIG": "/dev/null"}).code == 0


# Files of another user


def test_a_file_that_may_not_be_read_sets_nothing_and_is_noted(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = env(file, 'color_scale = "row"')

    def forbidden(path: Path, *mode: str, **more: str) -> object:
        if path == file:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *mode, **more)

    opened = Path.open
    monkeypatch.setattr(Path, "open", forbidden)
    plain = attn(*ENTRY, env={"ATTN_CONFIG": os.devnull})
    noted = attn(*ENTRY, env=variables)
    assert (noted.code, noted.bytes) == (0, plain.bytes)
    assert noted.errors == f"attn: settings in {file} are left out: Permission denied\n"
    assert attn(*ENTRY, "-q", env=variables).errors == ""
    assert attn("matrix", "--help", env=variables).errors == ""


@root_alone
@pytest.mark.parametrize("closed", ["file", "folder"])
def test_settings_in_the_home_of_another_user_stop_nothing(tmp_path: Path, closed: str) -> None:
    config = tmp_path / "home" / "attn" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('color_scale = "row"\n')
    (config if closed == "file" else config.parent.parent).chmod(0o600)
    variables = {"XDG_CONFIG_HOME": str(tmp_path / "home"), "ATTN_CONFIG": ""}
    done = as_nobody(*ENTRY, reaching=tmp_path, env=variables)
    assert done.code == 0, done.errors
    assert "river" in done.text
    assert done.errors == f"attn: settings in {config} are left out: Permission denied\n"
