"""What the model says next, the words that it needs, and where the heads stand that bring them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from attn_cli.explore.panes.lines import CURSOR, Line, line
from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import Viewpoint
from attn_cli.summaries.told.story import Row, Story, main_head, needed, readers, recorded_cell
from attn_cli.views.answers.story import answer_words, word_label
from attn_cli.views.drawing.cells import BOLD, DIM
from attn_cli.views.drawing.image import whole_row

_MOST = 3  # words
_LEAST_SHARE = 0.1  # of the largest effect, of a word that is shown
_LONGEST = 20  # characters of what was generated


class NeededWord(NamedTuple):
    """A word that the answer needs, the head that brings it, and the viewpoint on its weight on the word."""

    word: str
    head: str
    view: Viewpoint


def needed_words(scene: Scene) -> list[NeededWord]:
    """The words without which the answer is less likely, the most needed first, that a head brings."""
    return [] if scene.story is None else list(_needed(scene, scene.story))


def opening(scene: Scene) -> Viewpoint:
    """Where to begin: at the head that brings the word needed most, at the clearest of a kind, or at the last row."""
    story, first = scene.story, next(iter(needed_words(scene)), None)
    if first is not None:
        return first.view
    head = None if story is None else main_head(story)
    if story is not None and head is not None and (view := _on_head(scene, story, head)) is not None:
        return view
    is_quick = scene.is_judged or scene.is_quickly_judged
    out = next(iter(scene.judge().outs if is_quick else ()), None)
    view = Viewpoint() if out is None else Viewpoint(at=out.call, head=out.at)
    queries = scene.layer(view).queries
    row = whole_row(queries) if story is None else story["rows"][-1]
    if out is not None and out.strongest is not None and row is None:
        return replace(view, query=out.strongest[0], key=out.strongest[1])
    row = len(queries) - 1 if row is None else row
    return scene.on_heaviest(replace(view, query=row)) if is_quick else replace(view, query=row)


def _needed(scene: Scene, story: Story) -> Iterator[NeededWord]:
    words = needed(story["words"])
    words = [word for word in words if not word["name"].startswith("generated")] or words
    for word in words[:_MOST]:
        head = next(iter(readers(story, word)), word if "layer" in word else None)
        if head is None or word["bits"] > _LEAST_SHARE * words[0]["bits"]:
            continue
        view = _on_head(scene, story, head)
        if view is not None:
            yield NeededWord(word_label(word, story), scene.head_label(view.at, view.head), view)


def _on_head(scene: Scene, story: Story, head: Row) -> Viewpoint | None:
    """The viewpoint on a head at the row that predicts, of several that from which it attends to a key most."""
    cell = recorded_cell(scene.recording, story, head)
    if cell is None:
        return None
    at, number, row, key = cell
    layer, rows = scene.recording.layers[at], [row for row in story["rows"] if row < scene.recording.layers[at].n]
    if layer.is_kept and story["generated"]:
        weights = layer.weights(number, np.array(rows), slice(key, key + 1))
        row = rows[int(weights.argmax())]
    return Viewpoint(at=at, head=number, query=row, key=key)


def draw_answer(scene: Scene, view: Viewpoint, width: int) -> Line:
    """The first line of the screen; the style of a word or head has the word's number as `word`."""
    story, words = scene.story, needed_words(scene)
    if story is None:
        return line(" ".join(scene.recording.prompt.text.split()), width, BOLD)
    lead = answer_words(story, scene.recording.prompt, _LONGEST)
    lead = lead if story["generated"] else lead[:2]  # the likeliest token alone
    for count in range(2 * len(words), -1, -1):  # words with their heads, then without
        named = list(enumerate(words))[: (count + 1) // 2]
        parts = [(" ".join(lead), -1), *_joined("needs", [(word.word, at) for at, word in named])]
        parts += _joined("by", [(word.head, at) for at, word in named]) if count % 2 == 0 else ()
        if sum(cell_len(text) for text, _ in parts) <= width:
            break
    here = (view.at, view.head, view.key)
    line_of_words: Line = []
    for number, (text, at) in enumerate(parts):
        style = DIM if number else BOLD
        if at >= 0:
            is_here = here == (words[at].view.at, words[at].view.head, words[at].view.key)
            style = (CURSOR if is_here else BOLD) + Style.from_meta({"word": at})
        line_of_words.append(Segment(text, style))
    return line_of_words


def _joined(name: str, items: list[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """The pieces of ` · needs "Mary" 14, "John" 3`, each word with its number, others with -1."""
    for number, (text, at) in enumerate(items):
        yield f" · {name} " if not number else ", ", -1
        yield text, at
