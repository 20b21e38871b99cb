"""The first view of the explorer says what heads do, and stands where the head that stands out looks."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from attn_cli.explore.frame import draw
from attn_cli.explore.scene import Scene
from attn_cli.explore.session import Session
from attn_cli.recording import Recording
from attn_cli.sources import open_source
from attn_cli.summaries.reducers.record import record
from attn_cli.views.drawing.screen import Screen
from tests.explore.panes.test_screens import text_of
from tests.explore.test_session import session
from tests.real_models import SMOL

TEXT = (
    "Mary gave John the book in the garden behind the house.\n"
    "Then he sat on the river bank and read it, and when he had read it Mary gave John the other book."
)


@pytest.fixture(scope="module")
def recording() -> Recording:
    made = record(open_source(str(SMOL)), TEXT)
    return replace(made, about={**made.about, "model": "smollm2.gguf"})


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50), (40, 16)], ids=str)
def test_the_first_view_says_what_heads_do(
    size: tuple[int, int], recording: Recording, golden: Callable[[str, str], None]
) -> None:
    scene = Scene(recording, Screen(size[0], height=size[1]))
    made = Session(scene, session(recording).outside, scene.opening)
    text = text_of(draw(made))
    out = scene.judge().outs[0]
    view = made.view
    assert (view.at, view.head, view.query, view.key) == (out.call, out.at, *out.strongest[:2])
    words = f"{out.name} {out.sentence}"
    assert (words if size[0] >= 80 else words.partition(":")[0]) in " ".join(text.split())
    if size[0] == 80:
        golden("explore-first-80.txt", text)
