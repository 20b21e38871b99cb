"""The words that each word takes its meaning from: a sentence, then a line a word with the words that it reads most."""

from collections.abc import Iterator

from rich.cells import cell_len
from rich.text import Text

from attn_cli.prompt import Prompt
from attn_cli.summaries.told.word_reads import LEAST_READ, Reads, name_of, names_of, strongest_link, taking_words
from attn_cli.views.drawing.cells import BOLD, fit, packed
from attn_cli.views.drawing.screen import Screen

LEGEND = "reads: share of a word's output by weight x value length, over heads and layers"
_MOST_WORDS, _MOST_KEYS = 8, 4


def draw(reads: Reads, prompt: Prompt, screen: Screen) -> Iterator[Text]:
    """A sentence on the word that gives most to one other word, then the words that each word reads."""
    yield Text()
    yield Text("\n".join(packed([strongest_link(reads, prompt)], screen.width)), BOLD)
    taking, names = taking_words(reads), names_of(reads, prompt)
    labels = [name_of(word, prompt) for word in taking[:_MOST_WORDS]]
    width = max(map(cell_len, labels), default=0)
    for at, (word, label) in enumerate(zip(taking, labels, strict=False)):
        line = Text(f"  {fit(label, width)}  {'' if at else 'reads':5}")
        for source in word["sources"][:_MOST_KEYS]:
            piece = f"  {names[source['key']]} {source['share']:.2f}"
            if source["share"] < LEAST_READ or line.cell_len + cell_len(piece) > screen.width:
                break
            line.append(piece)
        line.rstrip()
        yield line


def links(reads: Reads, prompt: Prompt) -> tuple[str, list[str], list[float], list[int]]:
    """A title, `"bank" reads "river"` for the words that read most of one other, the shares, and what is read."""
    names, words = names_of(reads, prompt), taking_words(reads)[:_MOST_WORDS]
    keys, shares = ([word["sources"][0][column] for word in words] for column in ("key", "share"))
    labels = [f"{names[word['query']]} reads {names[key]}" for word, key in zip(words, keys, strict=True)]
    return "what each word reads most, past sinks", labels, shares, keys
