"""A report as text for a screen: the Rich renderables of all its parts, in their order."""

from collections.abc import Iterator
from itertools import chain, groupby

from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from attn_cli.prompt import Generated
from attn_cli.summaries.reducers.keys import Overall
from attn_cli.summaries.reducers.kinds.reducer import HeadKinds
from attn_cli.summaries.report import Report
from attn_cli.text import counted, cut_after_word, visible
from attn_cli.views.answers import drawer, file_of
from attn_cli.views.drawing.cells import BOLD, DIM, fit_path, packed, packed_text
from attn_cli.views.drawing.console import UnbrokenLine, printed
from attn_cli.views.drawing.labels import rule_words, token_label
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.table import draw as draw_table
from attn_cli.views.invocation import Invocation, command_line, on_texts
from attn_cli.views.same_input import more_of_matrices, on_same_input

_MANY_TOKENS = 200
_LONGEST = 200  # characters of a text
_MOST_LINES = 4  # of a screen, that the command to ask next takes
_FEW_PATCHES = 6
_USUAL = {"dtype": "float32", "device": "cpu"}  # what a header needn't say
_FEW_TOKENS = 32  # that stand before the answer


def render(report: Report, screen: Screen, invocation: Invocation | None = None, *, goes_on: bool = True) -> str:
    """A report, the answer on one text, as text for a screen, with escape codes if it has colours."""
    next_words = _next_words(report, invocation) if invocation is not None and goes_on else None
    ids = _ids(report, screen) if invocation is not None and invocation.has("verbose") else []
    return printed(chain(renderables(report, screen), ids, _last_line(next_words, screen)), screen)


def renderables(report: Report, screen: Screen) -> Iterator[RenderableType]:
    """Everything to print for a report: the line on its text and model, the answer, and tokens where they are shown."""
    answer = _drawn(report, screen)
    every = report.prompts[0].tokens if report.is_overview and report.command == "inspect" else ()
    tells = every and (not (report.story or report.reads) or any(token.row is not None for token in every))
    tokens = [_tokens(report, screen)] if tells else []
    are_first = not tokens or (report.story is None and len(every) <= _FEW_TOKENS)
    return chain([_header(report, screen)], chain(tokens, answer) if are_first else chain(answer, [""], tokens))


def _drawn(report: Report, screen: Screen) -> Iterator[RenderableType]:
    """What a screen shows of a report, the answer on one text: lines, maps and tables, with footnotes."""
    if report.answer is not None:
        return (draw_table if report.answer.shape.screen else drawer(report.answer.name))(report.answer, report, screen)
    if report.is_overview:
        drawn = [drawer("overview")(report, screen)]
    else:
        together, alone = report.parted
        parts = [pair for pair in (*together, *alone) if not isinstance(pair[0], HeadKinds)]  # the overview counts them
        drawn = [drawer(part.name)(part, summary, report, screen) for part, summary in parts]
    footnotes = dict.fromkeys(part.footnote for _, part in report.parts_of(Overall))
    return chain(*drawn, (Text(footnote, DIM) for footnote in footnotes if footnote))


def _next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The words of the command to try after this answer; None for many texts, and where there is none."""
    parts = [part for summary in report.summaries for part in summary.parts]
    if report.index is not None or (report.answer is None and not parts):
        return None
    if report.answer is not None:
        onwards = report.answer.next
        if onwards is None:
            return None
        if onwards.texts is None and report.batch is not None:
            return more_of_matrices(report, invocation, *onwards.more)
        if onwards.texts is None:
            return on_same_input(onwards.command, report, invocation, *onwards.more)
        model = invocation.words({"model"}) if onwards.takes_model else []
        return on_texts(onwards.command, onwards.texts, [*model, *onwards.more])
    next_words = getattr(file_of("overview" if report.is_overview else parts[0].name), "next_words", None)
    words: list[str] | None = None if next_words is None else next_words(report, invocation)
    return words


def _ids(report: Report, screen: Screen) -> Iterator[Text]:
    tokens = [token for prompt in report.prompts if prompt.text for token in prompt.tokens]  # none of random ones
    if ids := [f"{visible(token.text)} {token.id}" for token in tokens if token.id is not None]:
        yield packed_text(["token ids", *ids], screen, DIM)


def _last_line(words: list[str] | None, screen: Screen) -> Iterator[UnbrokenLine]:
    line = "" if words is None else f"next: {command_line(words)}"
    can_be_shown = line.isascii() or not screen.ascii_only
    if line and can_be_shown and cell_len(line) <= _MOST_LINES * screen.width:
        yield UnbrokenLine(line, DIM)


def _header(report: Report, screen: Screen) -> Text:
    title = Text()
    if report.index is not None and len(report.prompts) < 2:
        title.append(f"{'line' if report.batch is None else 'text'} {report.index + 1}: ", BOLD)
    for number, prompt in enumerate(report.prompts, 1):
        text = visible(prompt.text if prompt.generated is None else prompt.text[: prompt.generated.start])
        if text:
            title.append(f"{number} · " if len(report.prompts) > 1 else "", BOLD)
            text = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
            title.append(text, BOLD).append("\n")
        for kind, file in prompt.files.items():
            title.append(f"{kind} {visible(file)}\n", DIM)
        if prompt.generated is not None:
            title.append(_answer(prompt.generated) + "\n")
    return title.append("\n".join(packed(list(_about(report, screen.width)), screen.width)), DIM)


def _answer(generated: Generated) -> str:
    if not generated.tokens:
        return "generated nothing: ended at once"
    ended = " and ended" if generated.ended else ""
    how = "answer of" if generated.given else "generated"
    text = cut_after_word(visible(generated.quote), _LONGEST)
    return f"+ {how} {counted(generated.tokens, 'token')}{ended}" + (f": {text}" if text else "")


def _about(report: Report, width: int) -> Iterator[str]:
    source, summaries = report.source, report.summaries
    what = " (word vectors)" if source["type"] == "table" else ""
    yield fit_path(str(source["model"]), width - len(what)) + what
    yield from _about_text(report) if report.batch is None else _about_matrices(report, report.batch)
    is_model = report.runs_model and report.batch is None
    rules = {rule_words(summary, scale=not is_model) for summary in summaries}
    if len(rules) == 1 and not (is_model and rules == {"no mask"}):
        yield rules.pop()


def _about_matrices(report: Report, batch: tuple[int, ...]) -> Iterator[str]:
    first = report.summaries[0]
    if batch:
        yield f"batch of {' x '.join(map(str, batch))}"
    h, g = len(first.place.heads), len(set(first.place.groups))
    yield counted(h, "head") if g == h else f"{h} query heads, {counted(g, 'key head')}"
    n = len(first.queries)
    yield f"{n:,} {'query' if n == 1 else 'queries'}, {counted(len(first.keys), 'key')}"
    yield from filter(None, [report.source["positions"]])


def _about_text(report: Report) -> Iterator[str]:
    """A line on the run: the model, and the numbers of shown layers and heads and of tokens."""
    source, summaries = report.source, report.summaries
    if report.runs_model:
        yield from (source[name] for name, usual in _USUAL.items() if source[name] not in (usual, "none"))
    if not summaries:
        return
    heads = [len(summary.place.heads) for summary in summaries]
    layers = len({(summary.place.stream, summary.place.layer) for summary in summaries})
    alike = len(set(heads)) == 1 and layers == len(heads)
    each, joined = (heads[0], " of ") if alike and layers > 1 else (sum(heads), ", ")
    shown, last = counted(layers, "layer"), summaries[-1]
    if report.runs_model and layers == 1:  # of more
        through = last.place.layer > 0 and any(getattr(part, "by", "") == "rollout" for part in last.parts)
        shown, joined = (f"layers 0-{last.place.layer}", " of ") if through else (f"layer {last.place.layer}", ", ")
    is_one = report.runs_model and sum(heads) == 1
    yield f"{shown}{joined}" + (f"head {last.place.heads[0]}" if is_one else counted(each, "head"))
    tokens = len(report.prompts[0].tokens)
    if tokens and len({len(prompt.tokens) for prompt in report.prompts}) == 1:
        before = tokens if report.merged_from is None else report.merged_from
        yield counted(before, "token") + (f", merged to {tokens:,}" if tokens < before else "")
    if report.merged_from is not None:
        yield "words: keys summed, queries averaged"


def _tokens(report: Report, screen: Screen) -> Text:
    """`0 he  1 sat  2 on`, as many lines as it takes, never broken inside a token; the patches of an image at once."""
    every = report.prompts[0].tokens
    labels: list[str] = []
    count = 0
    for is_patch, run in groupby(every, lambda token: token.row is not None):
        tokens = list(run)
        if is_patch and len(tokens) > _FEW_PATCHES:
            patches = [visible(token.text) for token in tokens]
            labels.append(f"{tokens[0].index}-{tokens[-1].index} {patches[0]} to {patches[-1]}")
        else:
            labels += [token_label(token) for token in tokens[: max(0, _MANY_TOKENS - count)]]
            count += len(tokens)
    labels += [f"… {count - _MANY_TOKENS} more"] if count > _MANY_TOKENS else []
    return packed_text([f"{report.unit}s", *labels], screen, between="  ")
