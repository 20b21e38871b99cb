"""Every screen ends with a command that works when it is pasted."""

import io
import re
import shlex
import subprocess
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from attn_cli import record
from tests.fuzz.kinds.models import chatting, encoder
from tests.program import Run, attn
from tests.real_models import MINILM
from tests.views.test_golden import SCREENS, SENTENCE

MODEL = MINILM
WIDE = {"COLUMNS": "900", "NO_COLOR": "1"}


def next_of(*arguments: object, **more: object) -> list[str] | None:
    """The words of the command on the last line of a screen; None where there is none."""
    run = attn(*arguments, terminal=True, **{"env": WIDE} | more)
    assert run.code in (0, 1), run.errors
    return words_of(run)


def words_of(run: Run) -> list[str] | None:
    """The words of the last line, as a shell splits them."""
    *before, last = run.text.splitlines()
    assert not any(line.startswith("next: ") for line in before)
    return shlex.split(last.removeprefix("next: "))[1:] if last.startswith("next: attn ") else None


MORE_SCREENS = {
    "steps": ("inspect", "the cat sat", "--steps"),
    "compute": ("compute", "the cat sat"),
    "compute steps": ("compute", "the cat sat", "--steps"),
    "decode": ("compute", "the cat sat", "--decode"),
    "cost": ("cost", "-n", "1000", "--heads", "2", "--dim", "4", "--layers", "2"),
    "scale": ("scale", "--samples", "50"),
    "layers": ("layers",),
    "env": ("env",),
    "scaled": ("matrix", SENTENCE, "--color-scale", "sqrt", "--hide", "bank"),
    "parts": ("parts", "the cat sat. the dog ran.", "--cut", "sentences"),
    "sorted": ("heads", SENTENCE, "--sort", "self", "--top", "2"),
    "steps again": ("compute", "the cat sat on the mat and the dog", "-q"),
}


def test_lessons_on_sizes_lead_on_and_end_in_the_guide() -> None:
    """Scale, cache, cost, and the cost of fewer key heads: no screen is shown twice."""
    words: list[str] | None = ["scale", "--samples", "50"]
    seen = []
    while words is not None and words[0] != "guide":
        seen.append(words)
        assert len(seen) < 6 and words not in seen[:-1]
        words = next_of(*words)
    assert [each[0] for each in seen] == ["scale", "compute", "cost", "cost"] and words == ["guide", "costs"]
    assert seen[-1][-2:] == ["--kv-heads", "8"]


@pytest.mark.parametrize("name", [*SCREENS, *MORE_SCREENS])
def test_the_next_command_of_every_screen_works(name: str) -> None:
    arguments = (SCREENS | MORE_SCREENS)[name]
    words = next_of(*arguments)
    assert (words is None) == ("-q" in arguments)
    if words is not None:
        run = attn(*words, terminal=True, env=WIDE)
        assert run.code == 0, f"attn {shlex.join(words)}: {run.errors}"
        assert words != [str(word) for word in arguments], "the same question again"


def test_a_table_is_asked_what_its_clearest_word_reads() -> None:
    words = next_of("inspect", "he sat on the river bank")
    assert words is not None and words[-2:] == ["-t", "4"]
    assert "4 river reads 5 bank most" in attn(*words, terminal=True, env=WIDE).text


@pytest.mark.parametrize("text", ['it\'s "so" $HOME `id` \\ !', "-q", "bank *? ~ ; & | > <", "naïve 中"])
def test_a_text_is_quoted_for_the_shell(text: str) -> None:
    text = f"{text} river bank he"
    words = next_of("top", "-H", "0", "-t", "river", "--", text)
    assert words is not None and text in words
    assert attn(*words, terminal=True).code == 0


def test_no_line_where_nobody_would_paste_it_or_it_would_be_false() -> None:
    assert "next:" not in attn("heads", SENTENCE).text  # a pipe
    assert next_of("heads", SENTENCE, "-q") is None
    assert next_of("heads", "--lines", stdin=b"river bank\nhe sat\n") is None
    assert next_of("compute", "--q", "-", stdin=_matrix()) is None


@pytest.mark.parametrize("text", ["river\nbank", "river \x1b[31mbank's \\n $HOME\n", "the\u202e bank\t"])
def test_characters_that_do_not_show_are_escaped_for_the_shell(text: str) -> None:
    """As bash splits the line: it is asked for the words."""
    last = attn("heads", "--", text, terminal=True, env=WIDE).text.splitlines()[-1]
    assert last.startswith("next: attn matrix $'") and last.isprintable()
    words = ["bash", "-c", f"printf '%s\\0' {last.removeprefix('next: attn ')}"]
    split = subprocess.run(words, capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}).stdout.decode()
    assert split.split("\0")[1] == text


def test_a_line_wider_than_the_screen_stays_one_that_can_be_copied() -> None:
    options = ("heads", SENTENCE, "-m", "toy:minilm")
    *_, wide = attn(*options, terminal=True, env=WIDE).text.splitlines()
    *_, narrow = attn(*options, terminal=True, env={"COLUMNS": "30", "NO_COLOR": "1"}).text.splitlines()
    assert narrow == wide and len(wide) > 60


def test_a_long_text_is_given_again_whole() -> None:
    text = 'it\'s the *lamp* of the "harbour" that costs $5 and `more`; ' * 2 + "and a captain"
    words = next_of("heads", text, env={"COLUMNS": "80", "NO_COLOR": "1"})
    assert words is not None and words[:3] == ["matrix", text, "-H"]


def test_a_text_of_more_than_four_lines_is_not_given_again() -> None:
    narrow = {"COLUMNS": "80", "NO_COLOR": "1"}
    assert next_of("heads", "he sat on the river bank " * 10, env=narrow) is not None
    assert next_of("heads", "he sat on the river bank " * 14, env=narrow) is None


def _matrix() -> bytes:
    file = io.BytesIO()
    np.save(file, np.eye(3))
    return file.getvalue()


def test_what_came_through_a_pipe_is_given_as_a_text() -> None:
    words = next_of("heads", stdin=b"river bank\n")
    assert words is not None and words[:3] == ["matrix", "river bank", "-H"]


def test_files_and_options_of_the_model_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a text.txt").write_text("he sat on the river bank")
    words = next_of("heads", "--file", "a text.txt", "-m", "toy:minilm", "-l", "0", "--hide", "bank")
    assert words is not None and words[:7] == ["matrix", "-F", "a text.txt", "-m", "toy:minilm", "--hide", "bank"]
    assert attn(*words, terminal=True).code == 0


def test_the_next_commands_of_a_model_work_too() -> None:
    """From the keys of a query to why."""
    arguments: list[str] = ["top", SENTENCE, "-m", str(MODEL), "-H", "4.5", "-t", "bank"]
    followed = []
    for _ in range(2):
        words = next_of(*arguments)
        assert words is not None
        followed.append(words[0] + (" --why" if "--why" in words else ""))
        arguments = words
    assert followed == ["top --why", "knock"]
    assert attn(*arguments, terminal=True).code == 0


@pytest.mark.parametrize("first", [
    ("nearest", "bank"), ("plane", "river bank", "money bank"), ("compare", "river bank", "bank loan"), ("scale",),
    ("matrix", "he sat on the river bank"),
])  # fmt: skip
def test_two_screens_do_not_lead_to_each_other(first: tuple[str, ...]) -> None:
    followed = [list(first)]
    while len(followed) < 4 and (words := next_of(*followed[-1])) is not None:
        assert words not in followed[-2:]
        followed.append(words)
    assert len(followed) > 1


def test_a_check_that_fails_is_followed_by_the_steps_of_its_first_wrong_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("q.npy", np.zeros((2, 9, 3)))
    mine = np.zeros((2, 9, 3))
    mine[1, 7] = 1
    np.save("mine.npy", mine)
    words = next_of("compute", "--q", "q.npy", "--scale", "2", "--expect", "mine.npy")
    assert words == ["compute", "--q", "q.npy", "--scale", "2", "-H", "1", "--steps", "-t", "7"]
    assert attn(*words, terminal=True).code == 0


@pytest.mark.parametrize("model", ["toy", str(MODEL)], ids=["table", "model"])
def test_after_the_overview_comes_what_it_began_with(model: str) -> None:
    text = "the river bank was flooded and the bank of the city lent money"
    size = {"COLUMNS": "300", "LINES": "300", "NO_COLOR": "1"}
    lines = attn("inspect", text, "-m", model, terminal=True, env=size).lines
    about = (re.search(r"(?:^|   )(?:no head stands out; )?head (\d+\.\d+) ", line) for line in lines)
    head = next(found[1] for found in about if found)
    # what each word reads comes first, and so does the word that reads most of another
    assert lines[-1].startswith(f'next: attn inspect "{text}"')
    assert re.search(r" -t \d+$", lines[-1])
    if model != "toy":
        # its kinds are followed by the head that stands out; those of the table, where none does, by the table of heads
        assert attn("heads", "--kinds", text, "-m", model, terminal=True, env=size).lines[-1].endswith(f"-H {head}")


# Tiny models, and recordings of them


TEXT = "a photo of the cat . the cat sat here"
OF_ALL = (
    ("inspect",), ("top",), ("top", "-t", "0"), ("top", "-t", "-1", "-H", "1.1"), ("top", "-H", "0.0"),
    ("top", "--mean"), ("top", "--overall"), ("top", "--words"), ("top", "--no-special"), ("matrix",),
    ("matrix", "-H", "1.0"), ("matrix", "--mean"), ("matrix", "-t", "0"), ("heads",), ("heads", "--sort", "entropy"),
    ("layers",),
)  # fmt: skip
OF_MODELS = (
    ("top", "--why", "-H", "1.0", "-t", "0"), ("top", "--by", "output", "-H", "1.0"), ("heads", "--kinds"), ("knock",),
    ("parts",), ("parts", "--cut", "sentences"), ("inspect", "--steps"),
)  # fmt: skip


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder and a causal model that writes, and a recording of each."""
    place = tmp_path_factory.mktemp("tiny")
    for name, make in (("encoder", encoder), ("decoder", chatting)):
        record(TEXT, str(make(place / name))).save(str(place / f"{name}.attn"))
    return place


LIVE, RECORDED = ("encoder", "decoder"), ("encoder.attn", "decoder.attn")
ALL_SCREENS = [
    *product(LIVE, (*OF_ALL, *OF_MODELS)), ("decoder", ("knock", "-t", "0")), *product(RECORDED, OF_ALL),
]  # fmt: skip


@pytest.mark.usefixtures("loads_once")
@pytest.mark.parametrize(("name", "screen"), ALL_SCREENS, ids=lambda x: x if isinstance(x, str) else " ".join(x))
def test_no_screen_leads_to_what_is_refused_or_shows_nothing(tiny: Path, name: str, screen: tuple[str, ...]) -> None:
    command, *options = screen
    arguments = [command, *([] if name in RECORDED else [TEXT]), "-m", str(tiny / name), *options]
    words = next_of(*arguments)
    assert words is not None and words != arguments
    run = attn(*words, terminal=True, env=WIDE)
    assert run.code == 0, f"attn {shlex.join(words)}: {run.errors}"
    if name.startswith("decoder") and "-t" in words:
        assert words[words.index("-t") + 1] != "0", "the first row of a causal head sees itself alone"
