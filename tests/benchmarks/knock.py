"""The cost of ablating every head, in baseline runs of the model with its language-model head, by processor time."""

import statistics
import time
from collections.abc import Callable, Iterator

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from attn_cli.prompt import Prompt, Token
from attn_cli.selection import Selection
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.load.origin import Origin, OriginOptions
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.answers.knock import chosen_heads, interventions_of
from tests.benchmarks.timing import Row

LAST_ROW_BAR, ALL_ROWS_BAR = 15, 130
TOKENS = 83


def rows(repeats: int, *, quick: bool) -> Iterator[Row]:
    """270 heads of a model of SmolLM2's size: in the last row, and in all rows."""
    source = small_source()
    ids = torch.randint(0, 49152, (TOKENS,), generator=torch.Generator().manual_seed(0)).tolist()
    prompt = Prompt("", tuple(Token(at, str(number), number) for at, number in enumerate(ids)))
    arguments = source.reader.arguments([prompt])
    model = source.loaded.generating
    assert model is not None

    def plain() -> None:
        with torch.no_grad():
            model(**arguments, use_cache=False)

    cases = {"last row": (False, LAST_ROW_BAR, min(repeats, 3)), "all rows": (True, ALL_ROWS_BAR, 1)}
    for name, (everywhere, bar, times) in cases.items():
        if everywhere and quick:
            continue
        seconds, ratio = _ratio(plain, lambda e=everywhere: _all_heads(source, prompt, everywhere=e), times)
        yield Row(
            f"smollm2-135m, n = {TOKENS}: knock, 270 heads, {name}", "plain run, processor time", seconds, ratio, bar
        )


def _all_heads(source: ModelSource, prompt: Prompt, *, everywhere: bool) -> None:
    experiment = source.experiment(prompt, everywhere=everywhere)
    list(experiment.outcomes(interventions_of(chosen_heads(experiment.layers, Selection()))))


def _ratio(plain: Callable[[], object], candidate: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Median processor seconds of the plain run, and how many of them the candidate takes; they take turns.

    On one thread: threads that wait for each other burn processor time, too.
    """
    torch.set_num_threads(1)
    plain()
    plains, ratios = [], []
    for _ in range(repeats):
        before = statistics.median(_seconds(plain) for _ in range(5))
        spent = _seconds(candidate)
        after = statistics.median(_seconds(plain) for _ in range(5))
        plains.append((before + after) / 2)
        ratios.append(spent / plains[-1])
    return statistics.median(plains), statistics.median(ratios)


def _seconds(run: Callable[[], object]) -> float:
    begin = time.process_time()
    run()
    return time.process_time() - begin


def small_source() -> ModelSource:
    """SmolLM2-135M by its sizes, with random weights: what silencing costs doesn't depend on what it learned."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
        num_key_value_heads=3, max_position_embeddings=2048, tie_word_embeddings=True, attn_implementation="sdpa",
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    origin = Origin("smollm2-135m", "smollm2-135m", OriginOptions())
    about = {"model": "smollm2-135m", "type": "llama"}
    return ModelSource(LoadedModel(model.model, None, about, origin, model))
