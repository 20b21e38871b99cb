"""The words that each word takes its meaning from: a sentence, then a line a word with the words that it reads most."""

from collections.abc import Iterator
from typing import Any

from rich.cells import cell_len
from rich.text import Text

from attn_cli.prompt import Prompt
from attn_cli.recording import Recording
from attn_cli.summaries.told.overview import link_cell
from attn_cli.summaries.told.story import Row
from attn_cli.summaries.told.word_reads import LEAST_READ, Reads, name_of, names_of, strongest_link, taking_words
from attn_cli.views.drawing.cells import BOLD, fit, packed
from attn_cli.views.drawing.screen import Screen

LEGEND = "reads: share of output by weight x value length; order: lead over the second"
_MOST_WORDS = 8


def draw(reads: Reads, prompt: Prompt, screen: Screen) -> Iterator[Text]:
    """A sentence on the word that gives most to one other word, then the words that each word reads."""
    yield Text()
    yield Text("\n".join(packed([strongest_link(reads, prompt)], screen.width)), BOLD)
    lines = list(_lines(reads, prompt))
    width = max((cell_len(label) for label, _, _ in lines), default=0)
    for at, (label, _, pieces) in enumerate(lines):
        line = Text(f"  {fit(label, width)}  {'' if at else 'reads':5}")
        for piece, _ in pieces:
            if line.cell_len + cell_len(piece) + 2 > screen.width:
                break
            line.append(f"  {piece}")
        line.rstrip()
        yield line


def _lines(reads: Reads, prompt: Prompt) -> Iterator[tuple[str, Row, list[tuple[str, Row]]]]:
    names = names_of(reads, prompt)
    for word in taking_words(reads)[:_MOST_WORDS]:
        told = [source for source in word["sources"] if source["share"] >= LEAST_READ]
        yield name_of(word, prompt), word, [(f"{names[read['key']]} {read['share']:.2f}", read) for read in told]


def linked_lines(recording: Recording, reads: Reads) -> Iterator[list[dict[str, Any]]]:
    """The lines of `draw` as pieces of text, words that are read with the cell of the head that gives them most."""
    for label, word, pieces in _lines(reads, recording.prompt):
        linked = [{"text": text, "cell": link_cell(recording, word, source)} for text, source in pieces]
        yield [{"text": f"{label} reads"}, *linked]


def links(reads: Reads, prompt: Prompt) -> tuple[str, list[str], list[float]]:
    """A title, `"bank" reads "river"` for the words that read most of one other, and the shares."""
    names, words = names_of(reads, prompt), taking_words(reads)[:_MOST_WORDS]
    labels = [f"{names[word['query']]} reads {names[word['sources'][0]['key']]}" for word in words]
    return "what each word reads most, past sinks", labels, [word["sources"][0]["share"] for word in words]
