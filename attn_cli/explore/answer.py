"""What the model says next, the words that it needs, and where the heads stand that bring them."""

from collections.abc import Iterator
from dataclasses import replace

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from attn_cli.explore.panes.lines import CURSOR, Line, line
from attn_cli.explore.scene import Scene
from attn_cli.explore.viewpoint import Viewpoint
from attn_cli.views.answers.story import answer_words
from attn_cli.views.drawing.cells import BOLD, DIM, fit
from attn_cli.views.webpage.contents import model_of, start, title

_LONGEST = 20  # characters of what was generated


def opening(scene: Scene) -> Viewpoint:
    """Where to begin, as a page does: at the head that brings the word needed most, or at the strongest link."""
    outs = scene.judge().outs if scene.is_judged or scene.is_quickly_judged else []
    links = [cell for _, cell in scene.words if cell] if scene.story is None else []
    at, head, *cell = start(scene.recording, outs, links)
    view = Viewpoint(at=at, head=head, query=(cell or [0])[0])
    return replace(view, key=cell[1]) if len(cell) > 1 else scene.on_heaviest(view)


def draw_answer(scene: Scene, view: Viewpoint, width: int) -> Line:
    """The first line of the screen, the model at its end; a word's style, or its head's, has its number as `word`."""
    name = fit(model_of(scene.recording), max(width // 4, 12)).rstrip()
    drawn = _drawn(scene, view, width - cell_len(name) - 2)
    return [*drawn, Segment(" " * (width - cell_len(name) - Segment.get_line_length(drawn))), Segment(name, DIM)]


def _drawn(scene: Scene, view: Viewpoint, width: int) -> Line:
    story, words = scene.story, scene.words
    if not scene.lines:
        return line(title(scene.recording), width, BOLD)
    lead, verb = "strongest link", ": "
    if story is not None:
        answer = answer_words(story, scene.recording.prompt, _LONGEST)
        lead = " ".join(answer if story["generated"] else answer[:2])  # the likeliest token alone
        verb = f" · {scene.lines[0][1]['text']} " if words else ""
    for count in range(2 * len(words), -1, -1):  # words with their heads, then without
        named = list(enumerate(words))[: (count + 1) // 2]
        parts = [(lead, -1), *_joined(verb, [(text, at) for at, (text, _) in named])]
        by = [(scene.head_label(*cell[:2]), at) for at, (_, cell) in named if cell and verb != " · by "]
        parts += _joined(" · by ", by if count % 2 == 0 else [])
        if sum(cell_len(text) for text, _ in parts) <= width:
            break
    line_of_words: Line = []
    for number, (text, at) in enumerate(parts):
        style = DIM if number else BOLD
        if at >= 0:
            cell = words[at][1]
            is_here = cell is not None and (view.at, view.head, view.key) == (*cell[:2], cell[3])
            style = (CURSOR if is_here else BOLD) + Style.from_meta({"word": at})
        line_of_words.append(Segment(text, style))
    return line_of_words


def _joined(lead: str, items: list[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """The pieces of ` · needs "Mary" 14, "John" 3`, each word with its number, others with -1."""
    for number, (text, at) in enumerate(items):
        yield lead if not number else ", ", -1
        yield text, at
