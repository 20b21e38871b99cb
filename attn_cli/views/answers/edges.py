"""The writers that a head's effect on the answer rests on: a line for each, with its bits and a bar."""

from collections.abc import Iterator

from rich.cells import cell_len
from rich.text import Text

from attn_cli.summaries.answers.edges import Edge, Edges
from attn_cli.summaries.report import Report
from attn_cli.views.drawing.bars import bar
from attn_cli.views.drawing.cells import fit, packed_text
from attn_cli.views.drawing.labels import next_word, token_label
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import on_same_input

_LEAST = 0.05  # bits of an edge that is named as one against the answer
_MOST_AGAINST = 4
_BAR = 12
_NARROW = 50


def draw(edges: Edges, report: Report, screen: Screen) -> Iterator[Text | str]:
    """The change of the answer's log2 p, in bits, with the head ablated, and with each writer taken from its input.

    Writers are the embedding, earlier heads and MLPs; those that the answer needs most first, then those against it.
    """
    place, target = edges.place, edges.target
    word = next_word(target.tokens[0])
    yield ""
    yield packed_text(
        [
            f"head {place.layer}.{place.head} in row {token_label(edges.row)}",
            f"likeliest next: {word} {target.probability:.3f}",
            f"the whole head ablated: {_number(edges, edges.ablated.effect)} bits",
        ],
        screen,
        BOLD,
    )
    shown = [edge for edge in edges.edges[: edges.shown] if edge.outcome.effect < 0] or list(edges.edges[:1])
    names = max(cell_len(edge.writer.name) for edge in shown)
    longest = max(abs(edge.outcome.effect) for edge in shown)
    end = " if taken out" if screen.width >= _NARROW else ""
    yield Text(f"  {'written by':<{max(names, 10)}}  through     bits{end}", BOLD)
    for edge in shown:
        line = f"  {fit(edge.writer.name, max(names, 10))}  {edge.through:<7} {_number(edges, edge.outcome.effect):>8}"
        drawn = bar(-edge.outcome.effect, _BAR, longest) if screen.width >= _NARROW else ""
        yield Text(f"{line}  {drawn}".rstrip())
    against = [edge for edge in reversed(edges.edges) if edge.outcome.effect >= _LEAST][:_MOST_AGAINST]
    if against:
        yield packed_text(["likelier if taken out:", *(_named(edges, edge) for edge in against)], screen, between="  ")
    floor = f"noise floor {edges.noise_floor.effect:.4f}"
    count = sum(abs(edge.outcome.effect) > _LEAST for edge in edges.edges)
    yield packed_text(
        [f"{count} of {len(edges.edges):,} edges change the answer by more than {_LEAST} bits", floor], screen, DIM
    )
    yield packed_text(["taken out of what this head alone reads, norms held", "effects are not additive"], screen, DIM)


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: `attn knock --edges` of the writing head that the answer needs most, if it writes to the query.

    Else, and where its effect is no more than rounding, `attn top --why writers` of what the head attends to most. None
    for piped input.
    """
    assert isinstance(report.answer, Edges)
    edges = report.answer
    row = str(edges.row.index)
    head = next((edge for edge in edges.edges if edge.writer.head is not None and edge.outcome.effect < 0), None)
    if head is not None and head.through == "query" and not edges.noise_floor.is_rounding(head.outcome.effect):
        return on_same_input("knock", report, invocation, "--edges", f"{head.writer.layer}.{head.writer.head}")
    own = f"{edges.place.layer}.{edges.place.head}"
    return on_same_input("top", report, invocation, "-H", own, "-t", row, "-k", "1", "--why", "writers")


def _number(edges: Edges, effect: float) -> str:
    return "0" if edges.noise_floor.is_rounding(effect) else f"{effect:+.2f}"


def _named(edges: Edges, edge: Edge) -> str:
    return f"{edge.writer.name} {edge.through} {_number(edges, edge.outcome.effect)}"
