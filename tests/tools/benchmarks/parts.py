"""The cost of masking every part of a text, in baseline runs of the model with its head."""

import statistics
from collections.abc import Iterator

import torch

from attn_cli.prompt import Prompt
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.parts.answer import TextReading, read_parts
from attn_cli.summaries.parts.text_parts import TextPart, rows_of_last
from tests.tools.benchmarks.knock import prompt_of, seconds_of, small_source
from tests.tools.benchmarks.timing import Row

BAR = 1.0
CASES = {(83, 7): 6, (512, 6): 20}  # tokens and parts: tokens of the last part, the question
LONG = {(2048, 40): 24}


def rows(repeats: int, *, quick: bool) -> Iterator[Row]:
    """Parts of texts of several lengths, hidden from the rows of the last one, on a model of SmolLM2's size."""
    source = small_source()
    for (n, count), last in (CASES if quick else CASES | LONG).items():
        prompt, parts = prompt_of(n), parts_of(n, count, last)
        seconds, ratio = beyond_looking(source, prompt, parts, 1 if n > 2000 else repeats)
        yield Row(f"smollm2-135m, n = {n}: {count} parts hidden", "plain run, beyond looking", seconds, ratio, BAR)
        if n <= 2000:
            seconds, ratio = beyond_looking(source, prompt, parts, repeats, everywhere=True)
            what = f"smollm2-135m, n = {n}: {count} parts hidden everywhere"
            yield Row(what, "plain run, beyond looking", seconds, ratio, count / 2 + 1)  # and an untouched copy


def parts_of(n: int, count: int, last: int) -> list[TextPart]:
    bounds = [*(at * (n - last) // (count - 1) for at in range(count)), n]
    return [TextPart(f"part {at}", (), tuple(range(*bounds[at : at + 2]))) for at in range(count)]


def beyond_looking(
    source: ModelSource, prompt: Prompt, parts: list[TextPart], repeats: int, *, everywhere: bool = False
) -> tuple[float, float]:
    """Median seconds of a plain run, and how many of them hiding takes beyond a run that looks; they take turns."""
    reading = TextReading(rows_of_last(prompt, parts), len(prompt.tokens))
    model, arguments = source.loaded.generating, source.reader.arguments([prompt])
    assert model is not None

    def plain() -> None:
        with torch.no_grad():
            model(**arguments, use_cache=False)

    def look() -> None:
        source.each([prompt], Selection(), reading.add)

    def hide() -> None:
        read_parts(source, prompt, parts, everywhere=everywhere)

    torch.set_num_threads(1)  # threads that wait for each other burn processor time, too
    plain()
    seconds: list[float] = []
    ratios: list[float] = []
    for _ in range(repeats):
        before, looked, whole, after = map(seconds_of, (plain, look, hide, plain))
        seconds.append((before + after) / 2)
        ratios.append((whole - looked) / seconds[-1])
    return statistics.median(seconds), statistics.median(ratios)
