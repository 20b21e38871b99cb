"""The parts of a text as lines, those that the answer needed most first, with bars."""

from collections import Counter
from collections.abc import Iterator
from math import log2
from textwrap import wrap

from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from attn_cli.model.intervention import Target
from attn_cli.selection import ranges
from attn_cli.summaries.parts.answer import PartsRead
from attn_cli.summaries.parts.hidden import HiddenParts
from attn_cli.summaries.parts.reading import ReadPart
from attn_cli.summaries.parts.text_parts import CUTS, question_of
from attn_cli.summaries.report import Report
from attn_cli.text import counted, visible
from attn_cli.views.answers.cited_parts import verdict_lines
from attn_cli.views.drawing.bars import bar
from attn_cli.views.drawing.cells import fit, packed_text
from attn_cli.views.drawing.labels import token_label
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM, PLAIN
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import on_same_input

_MOST = 12  # parts on a screen; the rest is counted
_LARGE = 0.1  # the share of a part that is named among those without a line
_NUMBERED = ("lines", "paragraphs", "sentences")  # whose parts are found by their numbers
_LONGEST = 400  # characters of a part that a line could show
_SINKS = 4  # named in the legend
_ROWS = {"last part": ", the last part", "generated": ", which chose it", "picked": "", "all": ", all"}
_NARROW = 60  # columns below which there are no bars, and no column of size


def draw(answer: PartsRead, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """Lines: what the answer needed, which answer and rows, and the parts, the most needed first."""
    yield ""
    yield from (Text(line, BOLD) for line in verdict_lines(answer, screen.width))
    yield packed_text(_titles(answer), screen, PLAIN if answer.citation else BOLD)
    table = _Table(answer, screen)
    yield Text(table.heading, DIM)
    order = answer.order
    shown = order if len(order) <= _MOST + 1 else order[:_MOST]
    yield from (table.line(read) for read in shown)
    if len(shown) < len(order):
        yield from (Text(line, DIM) for line in table.rest(order[len(shown) :]))
    yield from (
        Text(line, DIM) for line in wrap(_legend(answer, marks_question=bool(table.asks and table.bar)), screen.width)
    )


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: the heads that the answer needs; without an answer, what the last token of the part listed
    first attends to in the last layer.
    """
    assert isinstance(report.answer, PartsRead)
    answer, hidden = report.answer, report.answer.hidden
    if hidden is not None and hidden.target is not None:
        picked = invocation.words({"token"}) if answer.queries_from == "picked" else []
        return on_same_input("knock", report, invocation, *picked, *_same_answer(report, invocation))
    tokens = [read.part.tokens for read in answer.order if read.part.tokens]
    if not tokens or answer.read.stream != "self":
        return on_same_input("inspect", report, invocation)
    return on_same_input("top", report, invocation, "-t", str(tokens[0][-1]), "-l", "-1", "--mean")


def _same_answer(report: Report, invocation: Invocation) -> list[str]:
    generated = report.prompts[0].generated
    if generated is None or generated.given or not generated.tokens or invocation.has("generate"):
        return []
    return ["--generate", str(generated.tokens)]


def _titles(answer: PartsRead) -> list[str]:
    rows = ("row " if len(answer.read.rows) == 1 else "rows ") + ranges(answer.read.rows)
    given = sum(read.part.kind == "given" for read in answer.read.parts)
    pieces = [f"the text cut into {given:,} {answer.cut}"] if answer.cut in CUTS and given > 1 else []
    return [*_target(answer.hidden), rows + _ROWS[answer.queries_from], *pieces]


def _target(hidden: HiddenParts | None) -> list[str]:
    if hidden is None:
        return []
    if hidden.target is None:
        return ["the mean vector"]
    if hidden.target.generated:
        probability = hidden.target.probability
        if not probability:
            return ["the answer's log2 p below -1,000"]
        return [f"the answer's p {probability:.2g} (log2 p {log2(probability):.2f})"]
    return [f"likeliest next: {_word(hidden.target)} {hidden.target.probability:.3f}"]


def _word(target: Target) -> str:
    return "answer" if target.generated else visible(target.tokens[0].text) or "␣"


def _legend(answer: PartsRead, *, marks_question: bool) -> str:
    """Captions of the columns, the mark of a question's parts, and the sinks."""
    read, hidden = answer.read, answer.hidden
    sinks = [f"{token_label(sink.token)} {sink.share:.3f}" for sink in read.sinks[:_SINKS]]
    sinks += [f"learned {read.learned_share:.3f}"] if read.learned_share else []
    words = ["share: of all attention from these rows, sinks counted"]
    without = f", sinks left out: {', '.join(sinks)}" if sinks else ""
    words += [f"vs uniform: the share over that under uniform attention{without}"]
    if hidden is None:
        return " · ".join(words)
    if hidden.target is None:
        words.append("hidden: cosine distance with the part masked and left out of the mean")
    else:
        rows = "all later rows" if hidden.everywhere else "these rows"
        words.append(f"hidden: change of log2 p({_word(hidden.target)}) in bits with the part masked for {rows}")
    if marks_question:
        words.append("question: parts that ask, which are not named as the answer's origin")
    if answer.key_logits is not None:
        words.append("logit: what heads write from the part to the answer's; later layers can undo it")
    return " · ".join(words)


class _Table:
    """The columns of a screen, and lines that fit them."""

    def __init__(self, answer: PartsRead, screen: Screen) -> None:
        self.answer, self.width, self.wide = answer, screen.width, screen.width >= _NARROW
        self.asks = question_of(answer.prompt, [read.part for read in answer.read.parts]) if answer.context else ()
        self.effects = None if answer.hidden is None else answer.hidden.effects
        self.is_bits = answer.hidden is not None and answer.hidden.target is not None
        self.places = max(len(_place(read)) for read in answer.read.parts)
        self.noun = answer.cut.removesuffix("s") if self.wide and answer.cut in _NUMBERED else ""
        self.number = len(self.noun) + 2 if self.noun else 0
        self.logits = answer.key_logits is not None
        numbers = 7 + (12 if self.wide else 0) + (0 if self.effects is None else 9) + 9 * self.logits
        room = screen.width - 4 - self.places - self.number - numbers
        self.bar = min(20, room // 4) if self.wide else 0
        self.most = max((-answer.effects[x.number] for x in answer.read.parts if not x.is_sink), default=0.0)
        shown = answer.order[: _MOST + 1]
        longest = max(cell_len(self._label(read)) for read in shown)
        marks = max(self.bar + 2, *(cell_len(self._marks(read)) for read in shown)) if self.bar else 0
        self.label = max(4, min(longest, room - marks))

    @property
    def heading(self) -> str:
        size = f"{'vs uniform':>12}" if self.wide else ""
        hidden = "" if self.effects is None else f"{'hidden':>9}"
        lead = f"{'':{4 + self.places}}" + (f"{self.noun}  " if self.noun else "") + f"{'':{self.label}}"
        return f"{lead}{'share':>7}{size}{hidden}" + (f"{'logit':>9}" if self.logits else "")

    def line(self, read: ReadPart) -> Text:
        """A part: its tokens, the beginning of its text, its numbers."""
        line = Text(f"  {_place(read):>{self.places}}  ")
        if self.noun:
            line.append(f"{self._number(read):>{len(self.noun)}}  ")
        line.append(fit(self._label(read), self.label)).append(f"{read.share:>7.3f}")
        if self.wide:
            line.append(f"{'' if read.vs_uniform is None else format(read.vs_uniform, '.2f'):>12}")
        effect = self.answer.effects[read.number]
        if self.effects is not None and read.part.kind == "generated":
            line.append(f"{'':9}")
        elif self.effects is not None:
            line.append(f"{effect:>+9.2f}" if self.is_bits else f"{-effect:>9.4f}")
        if self.logits:
            line.append(f"{self.answer.logit_of(read):>+9.2f}")
        return line.append(self._marks(read)) if self.bar else line

    def rest(self, reads: list[ReadPart]) -> Iterator[str]:
        """The parts that have no line of their own: how many, their share together, and their effects."""
        label = fit(f"… {counted(len(reads), 'more part')}", self.places + 2 + self.number + self.label)
        line = f"  {label}{sum(read.share for read in reads):>7.3f}"
        if self.effects is not None:
            effects = [self.effects[read.number] for read in reads]
            low, high = (min(effects), max(effects)) if self.is_bits else (-max(effects), -min(effects))
            span = f"{low:+.2f} to {high:+.2f}" if self.is_bits else f"{low:.4f} to {high:.4f}"
            line += f"{'':{12 if self.wide else 0}}  {span}"
        yield line
        kinds, largest = Counter(read.part.kind for read in reads), max(reads, key=lambda read: read.share)
        noun = self.answer.cut.removesuffix("s") if self.answer.cut in CUTS else "part"
        words = [counted(kinds["given"], noun)] if kinds["given"] else []
        words += [f"{kinds['generated']:,} of the answer"] if kinds["generated"] else []
        words += [counted(kinds["other"], "other")] if kinds["other"] else []
        said = [", ".join(words)] if len(kinds) > 1 else []
        if largest.share >= _LARGE and len(reads) > 1:
            sinks = ", with a sink" if largest.sinks else ""
            said.append(f"{largest.part.name} has {largest.share:.3f} of the share{sinks}")
        if said:
            yield fit(f"    {'; '.join(said)}", self.width).rstrip()

    def _number(self, read: ReadPart) -> str:
        return read.part.name.rpartition(" ")[2] if read.part.kind == "given" else ""

    def _marks(self, read: ReadPart) -> str:
        """The end of a part's line: a bar, and a mark if it is the answer, asks, or holds a sink."""
        marks = [
            "" if read.is_sink else bar(-self.answer.effects[read.number], self.bar, self.most),
            "answer" if self.effects is not None and read.part.kind == "generated" else "",
            "question" if read.number in self.asks else "",
            "sink" if read.sinks else "",
        ]
        return "".join(f"  {mark}" for mark in marks if mark)

    def _label(self, read: ReadPart) -> str:
        text = visible(" ".join(read.part.text(self.answer.prompt.text)[:_LONGEST].split()))
        if read.part.kind == "generated":
            return f"+{text}"
        is_named = read.part.kind == "other" or self.answer.cut not in CUTS
        return f"{read.part.name}: {text}" if is_named and text else text or read.part.name


def _place(read: ReadPart) -> str:
    """The tokens of a part: "3-7", with an ellipsis where others are between them."""
    tokens = read.part.tokens
    if not tokens:
        return ""
    if len(tokens) == tokens[-1] - tokens[0] + 1:
        return ranges(tokens)
    return f"{tokens[0]}…{tokens[-1]}"
