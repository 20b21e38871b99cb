"""The cost of --against and --against-model, relative to plain runs of both sides."""

import time
from collections.abc import Callable, Iterator

import torch

from attn_cli.call import Call
from attn_cli.prompt import Prompt, Token
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.load.checkpoint import load
from attn_cli.sources.huggingface.load.origin import OriginOptions, find
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.against.alignment import Aligner
from attn_cli.summaries.against.head_changes import head_changes
from attn_cli.summaries.against.kept import kept_call
from attn_cli.summaries.against.side_by_side import side_by_side
from attn_cli.summaries.answers.knock import knock
from tests.benchmarks.knock import small_source
from tests.benchmarks.timing import Row, compared
from tests.real_models import SMOL

TOKENS = 512


def rows(repeats: int, *, quick: bool) -> Iterator[Row]:
    """All heads of a model of SmolLM2's size on two texts that differ in a tenth of their tokens, and on two models."""
    torch.set_num_threads(1)  # threads that wait for each other burn processor time, too
    source = small_source()
    ids = torch.randint(0, 49152, (TOKENS,), generator=torch.Generator().manual_seed(0)).tolist()
    others = [(number + 1) % 49152 if at % 10 == 5 else number for at, number in enumerate(ids)]
    prompts = [
        Prompt("", tuple(Token(at, str(number), number) for at, number in enumerate(each))) for each in (ids, others)
    ]

    def plain() -> None:
        model = source.loaded.generating
        assert model is not None
        with torch.no_grad():
            for prompt in prompts:
                model.model(**source.reader.arguments([prompt]), use_cache=False)

    runs: dict[str, Callable[[], object]] = {
        "heads --against": lambda: _texts(source, prompts),
        "heads --against-model": lambda: _models(source, prompts[0]),
    }
    seconds, ratios = compared(plain, runs, 1 if quick else repeats, time.process_time)
    for name, ratio in ratios.items():
        yield Row(f"smollm2-135m, n = {TOKENS}: {name}", "both plain runs, processor time", seconds, ratio)
    if not quick:
        yield from _floors()


def _texts(source: ModelSource, prompts: list[Prompt]) -> None:
    """Two texts as a batch of two."""
    waiting: dict[int, Call] = {}
    aligner = Aligner()

    def visit(call: Call) -> None:
        if call.place.text == 0:
            waiting[call.place.layer] = call
        else:
            head_changes(side_by_side(waiting.pop(call.place.layer), call, aligner))

    source.each(prompts, Selection(), visit)


def _models(source: ModelSource, prompt: Prompt) -> None:
    """One text in two models, the first model's queries and keys kept."""
    waiting: dict[int, Call] = {}
    aligner = Aligner()

    def keep(call: Call) -> None:
        waiting[call.place.layer] = kept_call(call)

    def compare(call: Call) -> None:
        head_changes(side_by_side(waiting.pop(call.place.layer), call, aligner))

    source.each([prompt], Selection(), keep)
    source.each([prompt], Selection(), compare)


def _floors() -> Iterator[Row]:
    """The noise floor of an answer of SmolLM2-135M, in bits: effects below four times that are shown as 0."""
    path = SMOL
    for dtype in ("float32", "bfloat16"):
        source = ModelSource(load(find(str(path), OriginOptions(dtype=dtype, predicts=True))))
        begin = time.process_time()
        answer = knock(source, "The capital of France is")
        seconds = time.process_time() - begin
        yield Row(
            f"smollm2-135m in {dtype}: the floor of knock",
            "thousandths of a bit",
            seconds,
            1000 * answer.noise_floor.effect,
        )
