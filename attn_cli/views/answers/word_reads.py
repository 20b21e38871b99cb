"""The words that each word takes its meaning from: a sentence, then a line a word with the words that it reads most."""

from collections.abc import Iterator
from typing import Any

from rich.cells import cell_len
from rich.text import Text

from attn_cli.prompt import Prompt
from attn_cli.summaries.told.word_reads import Reads
from attn_cli.text import quoted, visible
from attn_cli.views.drawing.cells import BOLD, fit, packed
from attn_cli.views.drawing.screen import Screen

LEGEND = "reads: share of a word's output by weight x value length, over heads and layers"
_LEAST = 0.05  # of what a word reads that is told
_MOST_WORDS, _MOST_KEYS = 8, 4
_NAME = 16  # columns of a word at most


def draw(reads: Reads, prompt: Prompt, screen: Screen) -> Iterator[Text]:
    """A sentence on the word that gives most to one other word, then the words that each word reads."""
    yield Text()
    taking = _taking(reads)
    names = _names(reads, prompt)
    if not taking:
        most = max((word["sources"][0]["share"] for word in reads if word["sources"]), default=0.0)
        noun = "patch" if _is_image(reads, prompt) else "word"
        yield Text(f"no {noun} reads {_LEAST} of another: the most is {most:.3f}", BOLD)
        return
    first = clearest(reads) or taking[0]
    link, *others = [f"{names[source['key']]} {source['share']:.2f}" for source in first["sources"][:2]]
    after = f" (next: {others[0]})" if others else ""
    told = f"strongest link: {names[first['query']]} reads {link}{after}"
    yield Text("\n".join(packed([told], screen.width)), BOLD)
    is_image = _is_image(reads, prompt)
    labels = [names[word["query"]] if is_image else _numbered(word) for word in taking[:_MOST_WORDS]]
    width = max(map(cell_len, labels))
    for at, (word, label) in enumerate(zip(taking, labels, strict=False)):
        line = Text(f"  {fit(label, width)}  {'' if at else 'reads':5}")
        for source in word["sources"][:_MOST_KEYS]:
            piece = f"  {names[source['key']]} {source['share']:.2f}"
            if source["share"] < _LEAST or line.cell_len + cell_len(piece) > screen.width:
                break
            line.append(piece)
        line.rstrip()
        yield line


def links(reads: Reads, prompt: Prompt) -> tuple[str, list[str], list[float]]:
    """A title, `"bank" reads "river"` for the words that read most of one other, and the shares."""
    names, words = _names(reads, prompt), _taking(reads)[:_MOST_WORDS]
    labels = [f"{names[word['query']]} reads {names[word['sources'][0]['key']]}" for word in words]
    return "what each word reads most, past sinks", labels, [word["sources"][0]["share"] for word in words]


def clearest(reads: Reads) -> dict[str, Any] | None:
    """The word whose largest share of another word, 0.05 or more, is farthest ahead of its second; None without one."""

    def lead(word: dict[str, Any]) -> float:
        first, *others = (source["share"] for source in word["sources"][:2])
        return float(first - sum(others))

    return max(_taking(reads), key=lead, default=None)


def _taking(reads: Reads) -> list[dict[str, Any]]:
    taking = [word for word in reads if word["sources"] and word["sources"][0]["share"] >= _LEAST]
    return sorted(taking, key=lambda word: -word["sources"][0]["share"])


def _is_image(reads: Reads, prompt: Prompt) -> bool:
    return any(prompt.tokens[word["query"]].row is not None for word in reads)


def _names(reads: Reads, prompt: Prompt) -> dict[int, str]:
    """By first token each word in quotes, with its place where it stands more than once."""
    names: dict[int, str] = {}
    texts = [word["query_token"].strip() for word in reads]
    for word, text in zip(reads, texts, strict=True):
        name = _numbered(word) if texts.count(text) > 1 else _quoted(word)
        names[word["query"]] = name if prompt.tokens[word["query"]].row is None else visible(word["query_token"])
    return names


def _quoted(word: dict[str, Any]) -> str:
    return fit(quoted(word["query_token"]), _NAME).rstrip()


def _numbered(word: dict[str, Any]) -> str:
    return f"{_quoted(word)} {word['query']}"
