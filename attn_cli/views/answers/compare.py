"""One word in two contexts: a table of the blocks, or for a single block the pulls of tokens as bars."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from attn_cli.summaries.answers.compare import ComparedBlock, Comparison, Context, Journey
from attn_cli.summaries.report import Report
from attn_cli.text import visible
from attn_cli.views.drawing.bars import bar_line
from attn_cli.views.drawing.cells import fit, packed, packed_text
from attn_cli.views.drawing.labels import token_label
from attn_cli.views.drawing.palette import Ramp, background
from attn_cli.views.drawing.screen import Screen
from attn_cli.views.drawing.styles import BOLD, DIM
from attn_cli.views.invocation import Invocation
from attn_cli.views.same_input import on_given_texts


def draw(comparison: Comparison, report: Report, screen: Screen) -> Iterator[RenderableType]:
    """Lines: the cosine of a word's vectors in two texts, before and after each block, and the pull of tokens."""
    yield ""
    yield Text("\n".join(packed([_sentence(comparison)], screen.width)), BOLD)
    yield ""
    if len(comparison.blocks) == 1:
        yield from _one_block(comparison, comparison.blocks[0], screen)
    else:
        yield from _block_table(comparison, screen)
        if comparison.heads:
            heads = [f"{head.place.layer}.{head.place.head} {head.largest:.2f}" for head in comparison.heads[:_HEADS]]
            yield ""
            yield packed_text(["heads whose row differs most", *heads], screen)
    for number, journey in enumerate(comparison.journeys):
        masked = _masked_after(journey, [block.contexts[number] for block in comparison.blocks])
        if masked:
            words = [f"{visible(journey.word)} in {number + 1} sees {len(journey.prompt.tokens) - masked} of"
                     f" {len(journey.prompt.tokens)} tokens", "those after it are masked"]  # fmt: skip
            yield packed_text(words, screen, DIM)
    has_pulls = all(context.pulls is not None for block in comparison.blocks for context in block.contexts)
    yield packed_text(_PULL if has_pulls else _NO_PULL, screen, DIM, between=" ")


def _masked_after(journey: Journey, contexts: Sequence[Context]) -> int:
    after = max(journey.rows) + 1
    is_masked = all((context.weights[after:] == 0).all() for context in contexts)
    return len(journey.prompt.tokens) - after if is_masked else 0


def _sentence(comparison: Comparison) -> str:
    """`bank: 0.96 alike going in, 0.78 coming out; river pulled it in 1, loan in 2; most in layer 0`."""
    first, last = comparison.blocks[0], comparison.blocks[-1]
    words = [visible(journey.word) for journey in comparison.journeys]
    name = words[0] if words[0] == words[1] else f"{words[0]} and {words[1]}"
    said = f"{name}: {first.cosine_before:.2f} alike going in, {last.cosine_after:.2f} coming out"
    pulls = [pull for number in (0, 1) if (pull := _most_pulling(comparison, number)) is not None]
    if pulls:
        said += f"; of the other words, {', '.join(pulls)}"
    if len(comparison.blocks) > 1:
        most = min(comparison.blocks, key=lambda block: block.cosine_after - block.cosine_before)
        if most.cosine_after < most.cosine_before:
            said += f"; they part most in layer {most.layer}"
    return said


def _most_pulling(comparison: Comparison, number: int) -> str | None:
    """`river pulled it most in 1 (0.43, weight 0.21)`, means over blocks, no special tokens; None where little does."""
    journey = comparison.journeys[number]
    mean = np.mean([_strengths(block.contexts[number]) for block in comparison.blocks], axis=0)
    others = [at for at, token in enumerate(journey.prompt.tokens) if at not in journey.rows and not token.special]
    best = max(others, key=lambda at: float(mean[at]), default=None)
    if best is None or mean[best] < _LEAST_PULL:
        return None
    word = visible(journey.prompt.tokens[best].text)
    pulled = comparison.blocks[0].contexts[number].pulls is not None
    if not pulled:
        return f"it attends to {word} most in {number + 1} ({mean[best]:.2f})"
    weight = float(np.mean([block.contexts[number].weights[best] for block in comparison.blocks]))
    return f"{word} pulled it most in {number + 1} ({mean[best]:.2f}, weight {weight:.2f})"


def next_words(report: Report, invocation: Invocation) -> list[str] | None:
    """The next command: what the compared word attends to in the first text; None if that came by standard input."""
    assert isinstance(report.answer, Comparison)
    row = report.answer.journeys[0].rows[0]
    return on_given_texts("inspect", [invocation.value("first")], invocation, "-t", str(row))


_WEIGHT = 14  # columns of a weight beside a bar
_LEAST_PULL, _LEAST_SHOWN = 0.05, 0.005
_HEADS = 5  # of those whose row of the word differs most
_PULL = ("pull: the part of the word's attention output that a token adds,", "measured along that output;",
         "all parts sum to 1; below 0: against it;", "weight: the mean over heads")  # fmt: skip
_NO_PULL = ("weights, not pulls:", "this model's values can't be seen")


def _one_block(comparison: Comparison, block: ComparedBlock, screen: Screen) -> Iterator[RenderableType]:
    first_word, second_word = (visible(journey.word) for journey in comparison.journeys)
    both = (
        f"{first_word} in 1 and {first_word} in 2"
        if first_word == second_word
        else f"{first_word} in 1 and {second_word} in 2"
    )
    yield packed_text([f"cosine between {both}", f"before and after attention in layer {block.layer}"], screen, BOLD)
    narrow = replace(screen, width=screen.width - _WEIGHT)
    yield _bar("before", block.cosine_before, narrow)
    yield _bar("after", block.cosine_after, narrow)
    for number, (journey, context) in enumerate(zip(comparison.journeys, block.contexts, strict=True), 1):
        yield ""
        heading = [
            f"in {number}, {_word_places(journey)}",
            f"its cosine with itself before {context.cosine_turned:.3f}",
            "pulled by",
        ]
        yield packed_text(heading, screen, BOLD)
        for key in np.flatnonzero(context.weights).tolist():
            line = _bar(token_label(journey.prompt.tokens[key]), float(_strengths(context)[key]), narrow)
            if context.pulls is not None:
                line.append(" " * max(1, narrow.width - line.cell_len) + f"  weight {context.weights[key]:.3f}", DIM)
            yield line
    yield ""


def _block_table(comparison: Comparison, screen: Screen) -> Iterator[RenderableType]:
    """A line per block: both cosines, and for each context the strongest pulls of other tokens."""
    yield packed_text(["cosine between the word in 1 and in 2", "then the strongest pulls (pull/weight)"], screen, BOLD)
    lead = "layer  before   after"
    columns = screen.width - len(lead)
    beside = columns >= 2 * _NARROWEST
    width = columns // 2 - 2 if beside else screen.width - 4
    heads = [f"{number} · {_word_places(journey)}" for number, journey in enumerate(comparison.journeys, 1)]
    yield Text(lead + ("".join("  " + fit(head, width) for head in heads).rstrip() if beside else ""), BOLD)
    for block in comparison.blocks:
        numbers = f"{block.layer:>5}  {block.cosine_before:>6.3f}  {block.cosine_after:>6.3f}"
        pulls = [
            _strongest(journey, context, width, screen.depth)
            for journey, context in zip(comparison.journeys, block.contexts, strict=True)
        ]
        if beside:
            line = Text(numbers)
            for text in pulls:
                line.append("  ").append_text(text)
            line.rstrip()
            yield line
        else:
            yield Text(numbers)
            yield from (Text(f"  {number} ").append_text(text) for number, text in enumerate(pulls, 1))


_NARROWEST = 24


def _strongest(journey: Journey, context: Context, width: int, depth: str) -> Text:
    """`river 0.31/0.15  [CLS] 0.20`, pulls and weights, as many as fit, padded to the width."""
    strengths = _strengths(context)
    text = Text()
    for key in np.argsort(-strengths, kind="stable").tolist():
        if strengths[key] < _LEAST_SHOWN:
            break
        piece = f"{fit(journey.prompt.tokens[key].text, 12).rstrip()} {strengths[key]:.2f}"
        weight = "" if context.pulls is None else f"/{context.weights[key]:.2f}"
        if text.cell_len + cell_len(piece + weight) <= width:
            piece += weight
        if text.cell_len + cell_len(piece) > width:
            break
        text.append(piece, background(float(strengths[key]), Ramp(0.0, 1.0), depth)).append("  ")
    text.truncate(width)
    text.pad_right(width - text.cell_len)
    return text


def _strengths(context: Context) -> np.ndarray:
    return context.weights if context.pulls is None else context.pulls


def _word_places(journey: Journey) -> str:
    return " ".join(token_label(journey.prompt.tokens[row]) for row in journey.rows)


def _bar(label: str, value: float, screen: Screen) -> Text:
    return bar_line(label, max(10, screen.width // 5), value, screen)
