"""The heads that an answer rests on: a line per head, its effect as a number and a bar, and what it looks at."""

from collections.abc import Iterator, Sequence
from textwrap import wrap

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from attn_cli.selection import ranges
from attn_cli.summaries.answers.knock import Knock
from attn_cli.summaries.answers.knocked_head import KnockedHead
from attn_cli.summaries.report import Report
from attn_cli.text import counted, visible
from attn_cli.views.drawing.bars import bar
from attn_cli.views.drawing.cells import fit, packed, packed_text
from attn_cli.views.drawing.labels import head_choice, next_word, token_label
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM, PLAIN
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import on_same_input

_NAMED_WITHOUT = 5  # heads without which the answer is likelier, at most
_BITS, _TURN = 0.05, 0.01  # effects that are counted
_WITHOUT = " if ablated"  # the heading's end, over the bars
_LEAST_WEIGHT = 0.005  # of a key that is named after the first: less would read 0.00
_MOST_IN_VERDICT, _LEAST_IN_VERDICT = 3, 0.1  # heads, and bits
_TOKEN = 16  # columns of a key's name at most


def draw(knock: Knock, report: Report, screen: Screen) -> Iterator[Text | str]:
    """Lines: the answer, the heads that it needs most, by the change of its log2 p in bits, and those against it."""
    yield ""
    if (said := _verdict(knock)) is not None:
        yield Text("\n".join(wrap(said, screen.width)), BOLD)
    yield packed_text(list(_asked(knock)), screen, BOLD)
    shown = knock.heads[: knock.shown]
    if knock.target is not None:
        shown = tuple(head for head in shown if head.outcome.effect < 0) or knock.heads[:1]
    yield _headings(knock, shown, screen)
    longest = max((abs(head.outcome.effect) for head in shown), default=0.0)
    if knock.together is not None:
        longest = max(longest, abs(knock.together.effect))
        yield _line("together", knock, knock.together.effect, longest, None, _layout(knock, shown, screen))
    for head in shown:
        yield _line(_label(head), knock, head.outcome.effect, longest, head, _layout(knock, shown, screen))
    yield from (Text(line, style) for text, style in _closing(knock, screen) for line in wrap(text, screen.width))


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: the keys of the most needed head in the row that predicts the answer; None for piped input."""
    assert isinstance(report.answer, Knock)
    knock = report.answer
    place = knock.heads[0].place
    head = head_choice(place.stream, f"{place.layer}.{place.head}")
    if place.stream != "self" or knock.everywhere or knock.rows[-1] == 0:  # the first row sees itself alone
        return on_same_input("matrix", report, invocation, "-H", head)
    return on_same_input("top", report, invocation, "-H", head, "-t", str(knock.rows[-1]))


def _verdict(knock: Knock) -> str | None:
    """`John most needs 23.0 (-0.82 bits), 11.6 (-0.77), 12.8 (-0.72); 24.4 holds it back (+0.60)`."""
    target = knock.target
    if target is None or knock.together is not None or len(knock.heads) < _MOST_IN_VERDICT:
        return None
    what = "the generated text" if target.generated else next_word(target.tokens[0])
    needed = [head for head in knock.heads[:_MOST_IN_VERDICT] if head.outcome.effect <= -_LEAST_IN_VERDICT]
    against = [head for head in knock.heads[:-3:-1] if head.outcome.effect >= _LEAST_IN_VERDICT]
    named = [f"{_label(head)} ({head.outcome.effect:+.2f}{'' if at else ' bits'})" for at, head in enumerate(needed)]
    said = (
        f"{what} most needs {', '.join(named)}"
        if named
        else (f"no single head is needed for {what}: none costs it {_LEAST_IN_VERDICT} bits")
    )
    if against:
        held = [f"{_label(head)} ({head.outcome.effect:+.2f})" for head in against]
        said += f"; {' and '.join(held)} hold{'s' * (len(held) == 1)} it back"
    if needed and (hidden := knock.hidden) is not None:
        effect = _number(knock, hidden.bits)
        where = f"row {knock.rows[0]}" if len(knock.rows) == 1 else "these rows"
        said += (
            f"; {token_label(hidden.token)}, which {_label(needed[0])} reads most, masked for all heads in "
            f"{where}: {effect} bits"
        )
    return said


def _asked(knock: Knock) -> Iterator[str]:
    """The answer, and the rows in which heads were ablated."""
    target = knock.target
    if target is None:
        name = "mean vector" if knock.vector == "mean" else "first token's vector"
        yield f"cosine distance of the {name}"
    elif target.generated:
        yield f"generated: {counted(len(target.tokens), 'token')}, probability {_probability(target.probability)}"
    else:
        yield f"likeliest next: {next_word(target.tokens[0])} {_probability(target.probability)}"
    count = len(knock.heads)
    heads = f"{count} heads (layer.head), each one's output" if count > 1 else "the output of one head"
    ablated = "set to its mean" if knock.mean else "set to 0"
    if knock.everywhere:
        yield f"{heads} {ablated} in all {counted(len(knock.rows), 'row')}"
    elif len(knock.rows) > 1:
        yield f"{heads} {ablated} in rows {ranges(knock.rows)}"
    else:
        yield f'{heads} {ablated} at token {knock.rows[0]} "{next_word(knock.row_tokens[0])}"'


def _probability(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1e}"


class _Layout:
    """Columns of a line: of the head's name, the bar, and what is left for keys.

    loss, writes  whether there are such columns
    """

    def __init__(self, knock: Knock, shown: Sequence[KnockedHead], width: int) -> None:
        names = [_label(head) for head in shown] + (["together"] if knock.together is not None else [])
        self.name = max((cell_len(name) for name in names), default=4)
        self.loss = width >= 60 and any(head.outcome.loss_bits is not None for head in shown)
        self.writes = width >= 60 and any(head.direct is not None for head in shown)
        self.bar = 9 if width >= 72 else 4 if width >= 50 else 0
        used = 2 + self.name + 9 + (self.bar + 2) * bool(self.bar) + 8 * self.loss + 8 * self.writes
        self.keys = width - used - 2


def _layout(knock: Knock, shown: Sequence[KnockedHead], screen: Screen) -> _Layout:
    return _Layout(knock, shown, screen.width)


def _headings(knock: Knock, shown: Sequence[KnockedHead], screen: Screen) -> Text:
    layout = _layout(knock, shown, screen)
    text = Text("  ").append(" " * layout.name)
    text.append("     bits" if knock.target is not None else "  1 - cos")
    if layout.bar:
        has_room = knock.target is not None and layout.bar + 2 >= len(_WITHOUT)
        text.append(f"{_WITHOUT if has_room else '':{layout.bar + 2}}")
    text.append("    loss" if layout.loss else "").append("  direct" if layout.writes else "").append("  attends to")
    text.stylize(BOLD)
    return text


def _line(name: str, knock: Knock, effect: float, longest: float, head: KnockedHead | None, layout: _Layout) -> Text:
    """`23.4    -2.40  ███████   +2.87   3 France 0.90   0 The 0.07`."""
    line = Text("  ").append(fit(name, layout.name)).append(f" {_number(knock, effect):>8}")
    if layout.bar:
        length = abs(effect) if any(digit in "123456789" for digit in _number(knock, effect)) else 0.0
        line.append("  ").append(fit(bar(length, layout.bar, longest) if length else "", layout.bar))
    if head is None:
        return line
    if layout.loss:
        line.append(f" {head.outcome.loss_bits or 0.0:>+7.3f}")
    if layout.writes:
        line.append("        " if head.direct is None else f" {head.direct:>+7.2f}")
    room = layout.keys
    for key, weight in (look for look in head.top_keys if look[1] >= _LEAST_WEIGHT or look is head.top_keys[0]):
        piece = f"{fit(token_label(key), _TOKEN).rstrip()} {weight:.2f}"
        if cell_len(piece) + 2 > room:
            break
        line.append("  ").append(piece)
        room -= cell_len(piece) + 2
    return line


def _closing(knock: Knock, screen: Screen) -> Iterator[tuple[str, Style]]:
    """The captions below the heads, a sentence each."""
    plain = PLAIN
    if knock.together is not None:
        total = sum(head.outcome.effect for head in knock.heads)
        yield f"single effects sum to {_number(knock, total)}: effects are not additive", plain
    elif knock.target is not None:
        without = [head for head in reversed(knock.heads) if head.outcome.effect >= _BITS][:_NAMED_WITHOUT]
        if without:
            named = [f"{_label(head)} {_number(knock, head.outcome.effect)}" for head in without]
            yield packed(["likelier when ablated:", *named], screen.width, "  ")[0], plain
    least = _BITS if knock.target is not None else _TURN
    count = sum(abs(head.outcome.effect) > least for head in knock.heads)
    moves = f"by more than {least} bits" if knock.target is not None else f"by more than {least}"
    floor = f"run again unchanged {knock.noise_floor.effect:.4f} (noise)"
    yield f"{counted(count, 'head')} change{'s' * (count == 1)} it {moves} · {floor}", DIM
    if any(head.direct is not None for head in knock.heads) and knock.target is not None:
        word = next_word(knock.target.tokens[0])
        direct = f"direct, in logits: what the head's output itself adds to that of {word}, less the vocabulary's mean"
        yield f"bits: change of log2 p({word}) · {direct}", DIM
    if knock.no_direct_reason:
        yield f"no direct contributions: {visible(knock.no_direct_reason)}", DIM
    yield "a small effect does not mean the head is unused: later layers can compensate", DIM


def _number(knock: Knock, effect: float) -> str:
    if knock.noise_floor.is_rounding(effect):
        return "0"
    return f"{effect:.4f}" if knock.target is None else f"{effect:+.2f}"


def _label(head: KnockedHead) -> str:
    stream = "" if head.place.stream == "self" else f"{head.place.stream} "
    return f"{stream}{head.place.layer}.{head.place.head}"
