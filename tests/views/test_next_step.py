"""Every screen ends with a command that works when it is pasted."""

import shlex
import subprocess
from itertools import product
from pathlib import Path

import pytest

from attn_cli import record
from tests.media import chatting, encoder
from tests.program import attn
from tests.views.test_golden import SCREENS, SENTENCE

WIDE = {"COLUMNS": "900", "NO_COLOR": "1"}


def next_of(*arguments: object, **more: object) -> list[str] | None:
    """The words of the command on the last line of a screen, as a shell splits them; None where there is none."""
    run = attn(*arguments, terminal=True, **{"env": WIDE} | more)
    assert run.code == 0, run.errors
    *before, last = run.text.splitlines()
    assert not any(line.startswith("next: ") for line in before)
    return shlex.split(last.removeprefix("next: "))[1:] if last.startswith("next: attn ") else None


@pytest.mark.parametrize("name", SCREENS)
def test_the_next_command_of_every_screen_works(name: str) -> None:
    words = next_of(*SCREENS[name])
    assert (words is None) == ("-q" in SCREENS[name])
    if words is not None:
        run = attn(*words, terminal=True, env=WIDE)
        assert run.code == 0, f"attn {shlex.join(words)}: {run.errors}"
        assert words != [str(word) for word in SCREENS[name]], "the same question again"


@pytest.mark.parametrize("text", ['it\'s "so" $HOME `id` \\ !', "-q", "bank *? ~ ; & | > <", "naïve 中"])
def test_a_text_is_quoted_for_the_shell(text: str) -> None:
    text = f"{text} river bank he"
    words = next_of("top", "-H", "0", "-t", "river", "--", text)
    assert words is not None and text in words
    assert attn(*words, terminal=True).code == 0


@pytest.mark.parametrize("text", ["river\nbank", "river \x1b[31mbank's \\n $HOME\n", "the\u202e bank\t"])
def test_characters_that_do_not_show_are_escaped_for_the_shell(text: str) -> None:
    """As bash splits the line: it is asked for the words."""
    last = attn("heads", "--", text, terminal=True, env=WIDE).text.splitlines()[-1]
    assert last.startswith("next: attn matrix $'") and last.isprintable()
    words = ["bash", "-c", f"printf '%s\\0' {last.removeprefix('next: attn ')}"]
    split = subprocess.run(words, capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}).stdout.decode()
    assert split.split("\0")[1] == text


def test_no_line_where_nobody_would_paste_it() -> None:
    assert "next:" not in attn("heads", SENTENCE).text  # a pipe
    assert next_of("heads", SENTENCE, "-q") is None
    assert next_of("heads", "--lines", stdin=b"river bank\nhe sat\n") is None


TEXT = "a photo of the cat . the cat sat here"
LIVE, RECORDED = ("encoder", "decoder"), ("encoder.attn", "decoder.attn")
OF_ALL = (("inspect",), ("top", "-t", "-1", "-H", "1.1"), ("matrix", "-H", "1.0"), ("heads",), ("layers",))
OF_MODELS = (("heads", "--kinds"), ("knock",), ("parts",))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder and a causal model that writes, and a recording of each."""
    place = tmp_path_factory.mktemp("tiny")
    for name, make in (("encoder", encoder), ("decoder", chatting)):
        record(TEXT, str(make(place / name))).save(str(place / f"{name}.attn"))
    return place


@pytest.mark.usefixtures("loads_once")
@pytest.mark.parametrize(
    ("name", "screen"), [*product(LIVE, (*OF_ALL, *OF_MODELS)), *product(RECORDED, OF_ALL)],
    ids=lambda x: x if isinstance(x, str) else " ".join(x),
)  # fmt: skip
def test_no_screen_leads_to_what_is_refused(tiny: Path, name: str, screen: tuple[str, ...]) -> None:
    command, *options = screen
    arguments = [command, *([] if name in RECORDED else [TEXT]), "-m", str(tiny / name), *options]
    words = next_of(*arguments)
    assert words is not None and words != arguments
    run = attn(*words, terminal=True, env=WIDE)
    assert run.code == 0, f"attn {shlex.join(words)}: {run.errors}"
    if name.startswith("decoder") and "-t" in words:
        assert words[words.index("-t") + 1] != "0", "the first row of a causal head sees itself alone"
