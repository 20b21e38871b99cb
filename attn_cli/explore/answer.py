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
from attn_cli.views.drawing.cells import BOLD, DIM
from attn_cli.views.webpage.contents import start, title

_LONGEST = 20  # characters of what was generated


def opening(scene: Scene) -> Viewpoint:
    """Where to begin: at the head that brings the word needed most, or the strongest link, else where a page does."""
    outs = scene.judge().outs if scene.is_judged or scene.is_quickly_judged else []
    if scene.story is None and scene.needed:
        return scene.needed[0].view
    at, head, *cell = start(scene.recording, outs)
    view = Viewpoint(at=at, head=head, query=(cell or [0])[0])
    return replace(view, key=cell[1]) if len(cell) > 1 else scene.on_heaviest(view)


def draw_answer(scene: Scene, view: Viewpoint, width: int) -> Line:
    """The first line of the screen; the style of a word or head has the word's number as `word`."""
    story, words = scene.story, scene.needed
    if story is None and not words:
        return line(title(scene.recording), width, BOLD)
    lead, verb = ["strongest link"], ": "
    if story is not None:
        lead, verb = answer_words(story, scene.recording.prompt, _LONGEST), " · needs "
        lead = lead if story["generated"] else lead[:2]  # the likeliest token alone
    for count in range(2 * len(words), -1, -1):  # words with their heads, then without
        named = list(enumerate(words))[: (count + 1) // 2]
        parts = [(" ".join(lead), -1), *_joined(verb, [(word.word, at) for at, word in named])]
        by = named if count % 2 == 0 else []
        parts += _joined(" · by ", [(word.head, at) for at, word in by if word.does != " reads"])
        if sum(cell_len(text) for text, _ in parts) <= width:
            break
    line_of_words: Line = []
    for number, (text, at) in enumerate(parts):
        style = DIM if number else BOLD
        if at >= 0:
            is_here = (view.at, view.head, view.key) == (words[at].view.at, words[at].view.head, words[at].view.key)
            style = (CURSOR if is_here else BOLD) + Style.from_meta({"word": at})
        line_of_words.append(Segment(text, style))
    return line_of_words


def _joined(lead: str, items: list[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """The pieces of ` · needs "Mary" 14, "John" 3`, each word with its number, others with -1."""
    for number, (text, at) in enumerate(items):
        yield lead if not number else ", ", -1
        yield text, at
