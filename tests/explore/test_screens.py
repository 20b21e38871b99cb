"""Every pane to the byte; what the model says next above all of them; hostile tokens do no harm in any."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from textual.pilot import Pilot

from attn_cli.explore.answer import needed_words, opening
from attn_cli.explore.app import Explorer
from attn_cli.explore.panes.names import short_label
from attn_cli.explore.viewpoint import Viewpoint
from attn_cli.prompt import Token
from attn_cli.recording import Recording
from attn_cli.sources import open_source
from attn_cli.summaries.reducers.record import record
from tests.explore.playing import explorer, lines_of, played, scene_of
from tests.explore.recordings import prompt_of, recording, recording_of
from tests.real_models import SMOL

WALKS = {
    "heads": "ljl",
    "matrix": "2kkk",
    "zoomed": "2+++",
    "scores": "2x",
    "text": "3h",
    "column": "3kv",
    "cell": "34",
}
MARY = "When Mary and John went to the store, John gave a drink to Mary and the book to"
HOSTILE = ("\x1b[31mred", "[bold]bold[/]", "a\u202eb", "\u200b", "你好", "\t", "\r\n", "e\u0301", "\x07", "")


@pytest.fixture(scope="module")
def mary() -> Recording:
    made = record(open_source(str(SMOL), predicts=True), MARY, tells=True)
    return replace(made, about={**made.about, "model": "smollm2.gguf"})


def text_of(lines: list[str]) -> str:
    return "".join(f"{line.rstrip()}\n" for line in lines)


def test_screens(golden: Callable[[str, str], None]) -> None:
    panes = [f"== {name}\n{text_of(lines_of(played(explorer(recording(n=30), depth='none'), keys)))}"
             for name, keys in WALKS.items()]  # fmt: skip
    golden("explore-80.txt", "".join(panes))


def test_the_first_screen_says_what_comes_next_and_the_next_word_opens_its_head(
    mary: Recording, golden: Callable[[str, str], None]
) -> None:
    app = explorer(mary, depth="none")
    app.view = app.scene.settled(opening(app.scene))
    story = app.scene.story
    assert story is not None and app.view.query == story["rows"][0] == 18
    words = needed_words(app.scene)
    first, second = lines_of(played(app, "")), lines_of(played(again(app), " \r"))
    assert first[0].startswith('next "John" 43% · needs "Mary" 14, "John" 3')
    assert f"by {words[0].head}, {words[1].head}" in first[0] == second[0]
    assert second[1].startswith(f"layer {words[1].head.replace('.', ' head ')} · weights")
    golden("explore-first-80.txt", text_of(first) + text_of(second))

    async def clicks(app: Explorer, pilot: Pilot[int]) -> None:
        await pilot.click("#answer", offset=(first[0].index(words[2].head), 0))
        assert replace(app.view, top=0, left=0, form=None) == words[2].view

    played(again(app), clicks)


def again(app: Explorer) -> Explorer:
    made = explorer(app.scene.recording, depth="none")
    made.view = app.view
    return made


@pytest.mark.parametrize("size", [(80, 24), (40, 12), (120, 40), (200, 60), (3, 1)], ids=str)
def test_the_first_screen_at_all_sizes(size: tuple[int, int], mary: Recording) -> None:
    lines = lines_of(played(explorer(mary, size), "2"))
    assert len(lines) == size[1]
    assert ("next" in lines[0]) == (size[1] > 8)
    assert size[1] < 12 or "? keys" in lines[-1]


def test_thirteen_tokens_have_their_names_and_numbers_at_80_columns() -> None:
    made = recording_of(prompt_of(13), d=4)
    lines = lines_of(played(explorer(made), "2"))
    scene, words = scene_of(made), [token.text for token in made.prompt.tokens]
    weights = scene.row(Viewpoint(query=12))
    row = next(line for line in lines if "◀12" in line)
    assert [float(number) for number in row.split("◀")[0].split()] == pytest.approx(weights.tolist(), abs=0.006)
    assert all((word if len(word) < 5 else f"{word[:3]}…") in lines[2] for word in words[:11])


def test_pieces_of_a_character_have_names_of_their_own() -> None:
    pieces = [Token(at, "語", start=0, end=1) for at in range(3)]
    assert [short_label(pieces, at) for at in range(3)] == ["0 語", "1 語∙", "2 語∙"]


@pytest.mark.parametrize("keys", WALKS.values(), ids=WALKS.keys())
def test_hostile_tokens_do_no_harm(keys: str) -> None:
    lines = lines_of(played(explorer(hostile(HOSTILE), (60, 20), "16"), keys))
    assert all(character.isprintable() for line in lines for character in line)


def hostile(tokens: tuple[str, ...]) -> Recording:
    """A recording of a text whose tokens could do harm, shown as they would come from a model."""
    made = recording(n=len(tokens), layers=2)
    labels = tuple(
        replace(token, text=text, start=None, end=None) for token, text in zip(made.prompt.tokens, tokens, strict=True)
    )
    layers = tuple(replace(layer, queries=labels, keys=labels) for layer in made.layers)
    return replace(made, prompt=replace(made.prompt, text="".join(tokens), tokens=labels), layers=layers)
