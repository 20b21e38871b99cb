"""What the model says next, the words that it needs, and where the heads stand that bring them."""

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
    """The first line of the screen; a word's style, and its head's, has its number as `word`. The model, if it fits."""
    name = fit(model_of(scene.recording), max(width // 4, 12)).rstrip()
    text = line(title(scene.recording), width - cell_len(name) - 2, BOLD)
    drawn = _drawn(scene, view, width) if scene.lines else text
    spare = width - Segment.get_line_length(drawn) - cell_len(name)
    return [*drawn, Segment(" " * spare), Segment(name, DIM)] if spare > 1 else drawn


def _drawn(scene: Scene, view: Viewpoint, width: int) -> Line:
    story, words = scene.story, scene.words
    lead, verb = "strongest link", ": "
    if story is not None:
        answer = answer_words(story, scene.recording.prompt, _LONGEST)
        lead = " ".join(answer if story["generated"] else answer[:2])  # the likeliest token alone
        verb = f" · {scene.lines[0][1]['text']} "
    parts, brought = [(lead, -1)], {line[0]["text"] for line in scene.lines[1:] if "cell" in line[-1]}
    for at, (text, cell) in enumerate(words):
        by = [(" by ", -1), (scene.head_label(*cell[:2]), at)] if cell and (story is None or text in brought) else []
        longer = [*parts, (", " if at else verb, -1), (text, at), *by]
        if sum(cell_len(text) for text, _ in longer) > width:
            break
        parts = longer
    line_of_words: Line = []
    for number, (text, at) in enumerate(parts):
        style = DIM if number else BOLD
        if at >= 0:
            cell = words[at][1]
            is_here = cell is not None and (view.at, view.head, view.key) == (*cell[:2], cell[3])
            style = (CURSOR if is_here else BOLD) + Style.from_meta({"word": at})
        line_of_words.append(Segment(text, style))
    return line_of_words
