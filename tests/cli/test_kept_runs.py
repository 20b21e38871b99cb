"""A run of a model is kept: a second look takes no model, and a cache that can't be used stops no command."""

import os
from pathlib import Path

import pytest

from attn_cli.cli.kit.options import model as model_options
from attn_cli.cli.kit.run.text_answers import TextAnswers
from attn_cli.explore.session import Session
from attn_cli.kept.folder import KeptFolder
from attn_cli.kept.model_files import model_state
from tests.program import Run, attn
from tests.real_models import MINILM

TEXT = "the bank of the river"
SCREENS = [
    ["top"], ["top", "-t", "-1", "--mean"], ["top", "--by", "value", "-H", "1.2"], ["heads"],
    ["heads", "--sort", "entropy"], ["matrix", "-H", "3.4"], ["matrix", "--scores", "-l", "2", "--mean"],
    ["top", "--words", "--hide", "special"], ["inspect"],
]  # fmt: skip

FIRST = "runs are kept for a second look, in {}/runs; ATTN_CACHE=off keeps none"


@pytest.fixture(scope="module")
def model() -> str:
    return str(MINILM)


@pytest.fixture
def cache(tmp_path: Path) -> dict[str, str]:
    return {"ATTN_CACHE": str(tmp_path / "cache"), "COLUMNS": "80"}


def runs(cache: dict[str, str]) -> list[Path]:
    return sorted(Path(cache["ATTN_CACHE"]).glob("runs/*"))


def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*names: object, **options: object) -> object:
        raise AssertionError("a model is opened")

    monkeypatch.setattr(model_options, "open_source", refuse)


def opens(run: Run) -> bool:
    return "a model is opened" in run.errors


def without_times(run: Run) -> list[str]:
    """The parts of a screen's header without those on the run that it is from, then the body."""
    header, _, body = run.text.partition("\n\n")
    parts = header.replace("\n", " · ").split(" · ")
    return [*(part for part in parts if not part.startswith("from the run of")), body]


def test_second_looks_and_next_commands_take_no_model(
    model: str, cache: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each screen is what the model itself gives, and says that it is from a run."""
    live = [attn(*words[:1], TEXT, "-m", model, *words[1:], env={"COLUMNS": "80"}) for words in SCREENS]
    assert attn("inspect", TEXT, "-m", model, env=cache).code == 0
    assert len(runs(cache)) == 1
    no_model(monkeypatch)
    for words, first in zip(SCREENS, live, strict=True):
        again = attn(*words[:1], TEXT, "-m", model, *words[1:], env=cache)
        assert (again.code, again.errors) == (first.code, first.errors)
        assert "from the run of" in again.text
        assert "from the run of" not in first.text
        assert without_times(again) == without_times(first)
    assert opens(attn("top", TEXT, "-m", model, env=cache | {"ATTN_CACHE": "off"}))


@pytest.mark.parametrize(
    "words",
    [["--json"], ["--lines"], ["-o", "x.csv"], ["--by", "output"],
     ["--dtype", "float16"], ["--pair", "a loan"], ["--trust-remote-code"]],
    ids=" ".join,
)  # fmt: skip
def test_what_is_asked_otherwise_or_takes_the_model_opens_it(
    model: str, cache: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert attn("top", TEXT, "-m", model, env=cache).code == 0
    no_model(monkeypatch)
    assert not opens(attn("top", TEXT, "-m", model, env=cache))
    assert opens(attn("top", TEXT, "-m", model, *words, env=cache))
    assert opens(attn("top", f"{TEXT} bank", "-m", model, env=cache))


@pytest.mark.parametrize("words", [["--lines"], ["-o", "run.attn"]], ids=" ".join)
def test_what_is_not_kept(
    model: str, cache: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert attn("top", TEXT, "-m", model, *words, env=cache).code == 0
    assert attn("top", TEXT, env=cache).code == 0
    assert runs(cache) == []


def test_the_first_run_that_is_kept_says_so(model: str, cache: dict[str, str]) -> None:
    note = f"attn: {FIRST.format(cache['ATTN_CACHE'])}\n"
    assert attn("top", TEXT, "-m", model, env=cache).errors == note
    for again in (["top", TEXT], ["top", f"{TEXT} bank"], ["inspect", TEXT]):
        assert attn(*again, "-m", model, env=cache).errors == ""
    assert attn("env", "--json", env=cache).json["tables"]["kept"][0]["most_bytes"] == 256_000_000


def test_text_that_came_through_a_pipe_is_kept_where_a_setting_says_so(model: str, tmp_path: Path) -> None:
    """In the usual folder, too, whose place XDG_CACHE_HOME says."""
    cache = {"XDG_CACHE_HOME": str(tmp_path), "ATTN_CACHE": "all"}
    piped = [["top", "-m", model], ["top", "-", "-m", model], ["heads", "-m", model, "-F", "-"]]
    for words in piped:
        assert attn(*words, stdin=TEXT.encode(), env={"ATTN_CACHE": str(tmp_path / "attn")}).code == 0
    assert not (tmp_path / "attn" / "runs").exists()
    for words in piped:
        assert attn(*words, stdin=TEXT.encode(), env=cache).code == 0
    assert len(list((tmp_path / "attn" / "runs").iterdir())) == 1


def test_a_spoilt_run_is_run_again_and_an_unusable_cache_is_a_note(
    model: str, cache: dict[str, str], tmp_path: Path
) -> None:
    command = ["matrix", TEXT, "-m", model, "-H", "2.3"]
    first = attn(*command, env=cache)
    (file,) = runs(cache)
    whole = file.read_bytes()
    for spoilt in (whole[:100], b"", b"\0" * len(whole), whole[:2000] + b"\xff" * (len(whole) - 2000)):
        file.write_bytes(spoilt)
        assert without_times(attn(*command, env=cache)) == without_times(first)
        assert file.read_bytes() == whole
    (tmp_path / "taken").write_text("no folder")
    run = attn(*command, env=cache | {"ATTN_CACHE": str(tmp_path / "taken")})
    assert (run.code, run.text) == (0, first.text)
    assert run.errors.startswith("attn: the run is not kept: ") and run.errors.count("\n") == 1
    assert attn(*command, "-q", env=cache | {"ATTN_CACHE": str(tmp_path / "taken")}).errors == ""


def test_only_its_owner_may_read_what_is_kept(model: str, cache: dict[str, str]) -> None:
    before = os.umask(0)
    try:
        attn("top", TEXT, "-m", model, "-H", "0.0", env=cache)
    finally:
        os.umask(before)
    (file,) = runs(cache)
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_env_says_where_and_how_large_and_clears(model: str, cache: dict[str, str]) -> None:
    attn("top", TEXT, "-m", model, "-H", "0.0", env=cache)
    (file,) = runs(cache)
    kept = attn("env", "--json", env=cache | {"ATTN_CACHE_SIZE": "5MB"}).json["tables"]["kept"][0]
    taken = {"folder": str(file.parent), "count": 1, "bytes": file.stat().st_size, "most_bytes": 5_000_000}
    assert kept == taken | {"kept": "runs"}
    cleared = attn("env", "--clear-cache", "--json", env=cache)
    assert cleared.json["tables"]["kept"][0]["count"] == 0 and "removed" in cleared.errors
    assert runs(cache) == []
    assert attn("env", "--json").json["tables"]["kept"] == []


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    folder = KeptFolder(tmp_path / "runs", most=3 * (10 + 16))
    for name in "abc":
        folder.write(name, [b"0123456789"])
    assert folder.find("a") is not None
    folder.write("d", [b"0123456789"])
    assert {each.path.name for each in folder.files()} == {"a", "c", "d"}
    folder.write("e", [b"0" * 60])
    assert {each.path.name for each in folder.files()} == {"e"}
    assert folder.find("b") is None
    (folder.path / "e").write_bytes(b"1" + (folder.path / "e").read_bytes()[1:])
    assert folder.find("e") is None
    folder.write("f", [b"0"])
    assert folder.clear() == 17
    assert KeptFolder(tmp_path / "nowhere").files() == []


def test_a_model_is_another_where_a_file_or_the_commit_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text("{}")
    first = model_state(str(tmp_path))
    assert first == model_state(str(tmp_path))
    (tmp_path / "config.json").write_text("{ }")
    assert model_state(str(tmp_path)) != first
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert model_state("org/model") is None
    (tmp_path / "models--org--model/refs").mkdir(parents=True)
    (tmp_path / "models--org--model/refs/main").write_text("a" * 40)
    assert model_state("org/model") == ["org/model", "a" * 40]
    assert model_state("org/model@" + "b" * 40) == ["org/model", "b" * 40]


def test_a_second_overview_tells_its_story_without_the_model(
    llama: Path, cache: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of other heads has a story of its own, and a run that told none can't be told of."""
    text, env = "the cat sat on a photo", cache
    assert attn("top", text, "-m", llama, env=env).code == 0
    live = attn("inspect", text, "-m", llama, env=env)
    assert "next " in live.text and "from the run of" not in live.text
    of_cat = attn("inspect", text, "-m", llama, "-t", "cat", env=env)
    no_model(monkeypatch)
    assert without_times(attn("inspect", text, "-m", llama, "-t", "cat", env=env)) == without_times(of_cat)
    again = attn("inspect", text, "-m", llama, env=env)
    assert (again.code, again.errors) == (live.code, live.errors)
    assert without_times(again) == without_times(live)
    assert opens(attn("inspect", text, "-m", llama, "-l", "0", env=env))
    assert opens(attn("inspect", text, "-m", llama, "-t", "sat", env=env))


def test_the_explorer_opens_a_kept_run_and_the_model_with_the_next_text(
    llama: Path, cache: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions: list[Session] = []
    monkeypatch.setattr("attn_cli.cli.explore._is_terminal", lambda: True)
    monkeypatch.setattr("attn_cli.explore.app.run", lambda session: sessions.append(session) or 0)
    for _ in range(2):
        assert attn("explore", TEXT, "-m", llama, env=cache | {"TERM": "xterm"}).code == 0
    assert len(runs(cache)) == 1
    first, again = (session.scene.recording for session in sessions)
    for ours, theirs in zip(again.layers, first.layers, strict=True):
        assert ours.q is not None and theirs.q is not None and (ours.q == theirs.q).all()
    assert again.prompt == first.prompt
    no_model(monkeypatch)
    assert attn("explore", TEXT, "-m", llama, env=cache | {"TERM": "xterm"}).code == 0
    assert opens(attn("explore", f"{TEXT} bank", "-m", llama, env=cache | {"TERM": "xterm"}))
    read = sessions[1].outside.read
    assert read is not None
    monkeypatch.undo()
    assert read("the cat sat", lambda: None).prompt.text == "the cat sat"


@pytest.mark.parametrize("spoilt", [{}, {"6": 3}, {"6": {"target": None}}], ids=str)
def test_a_story_that_cannot_be_read_is_told_anew(
    llama: Path, cache: dict[str, str], spoilt: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as context:
        context.setattr(TextAnswers, "_told", lambda self, result: spoilt)
        first = attn("inspect", TEXT, "-m", llama, env=cache)
    again = attn("inspect", TEXT, "-m", llama, env=cache)
    assert (again.code, again.text) == (0, first.text)
    assert first.errors == f"{again.errors}attn: {FIRST.format(cache['ATTN_CACHE'])}\n"
