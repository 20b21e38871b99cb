"""What attn knock and inspect cost, in baseline runs of the model with its LM head, by processor time."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from attn_cli.prompt import Prompt, Token
from attn_cli.selection import ALL
from attn_cli.sources.huggingface.load.checkpoint import LoadedModel
from attn_cli.sources.huggingface.load.origin import Origin, OriginOptions
from attn_cli.sources.huggingface.source import ModelSource
from attn_cli.summaries.answers.knock import Ablation, knock
from attn_cli.summaries.reducers.heads import HeadStatistics
from attn_cli.summaries.reducers.keys import ReceivedShares
from attn_cli.summaries.reducers.kinds.reducer import HeadKindsReducer
from attn_cli.summaries.told.story import SHORT, deciding_rows, looked_and_told
from tests.tools.benchmarks.timing import Row, compared

LAST_ROW_BAR, ALL_ROWS_BAR, LONG_BAR, STORY_BAR, TOKENS, MANY = 15, 130, 4, 3, 83, 6072


def rows(repeats: int, *, quick: bool) -> Iterator[Row]:
    """270 heads of a model of SmolLM2's size, in the last row and in all; of many tokens also what inspect runs."""
    source = small_source()
    model = source.loaded.generating
    assert model is not None

    def plain(arguments: dict[str, torch.Tensor]) -> None:
        with torch.no_grad():
            model(**arguments, use_cache=False)

    def everywhere(prompt: Prompt) -> None:  # as for a screen, which has the loss of the heads that it shows alone
        knock(source, prompt, Ablation(everywhere=True), shown=12)

    cases: list[tuple[str, int, float, Callable[[Prompt], object]]] = [
        ("knock, 270 heads, last row", TOKENS, LAST_ROW_BAR, lambda prompt: knock(source, prompt)),
        ("knock, 270 heads, all rows", TOKENS, ALL_ROWS_BAR, everywhere),
        ("knock, 270 heads, last row", MANY, LONG_BAR, lambda prompt: knock(source, prompt)),
        ("inspect, its story and kinds", MANY, STORY_BAR, lambda prompt: _inspect(source, prompt)),
    ]
    torch.set_num_threads(1)  # threads that wait for each other burn processor time, too
    for name, n, bar, run in cases[: 1 if quick else None]:
        prompt = prompt_of(n)
        arguments, times = source.reader.arguments([prompt]), 1 if "all" in name else min(repeats, 3)
        seconds, ratios = compared(partial(plain, arguments), {name: partial(run, prompt)}, times, time.process_time)
        yield Row(f"smollm2-135m, n = {n}: {name}", "plain run, processor time", seconds, ratios[name], bar)


def prompt_of(n: int) -> Prompt:
    """Random tokens in 40 lines and a shorter last one."""
    ids = torch.randint(0, 49152, (n,), generator=torch.Generator().manual_seed(0)).tolist()
    ends = {*range(n // 41, n - 20, n // 41), n - 21} if n > SHORT else set()
    texts = ["\n" if at in ends else f" {number}" for at, number in enumerate(ids)]
    starts = [0, *accumulate(map(len, texts))]
    tokens = (Token(at, text, ids[at], start=starts[at], end=starts[at + 1]) for at, text in enumerate(texts))
    return Prompt("".join(texts), tuple(tokens))


def _inspect(source: ModelSource, prompt: Prompt) -> None:
    """What `attn inspect` runs: a pass that looks, then words or lines masked and heads ablated in the last rows."""
    reducers = HeadStatistics(), HeadKindsReducer(), ReceivedShares()
    _, story, _ = looked_and_told(source, prompt, ALL, lambda call: reducers, None)
    assert story is not None and len(deciding_rows(prompt)) == 20 and story["words"] and story["heads"]


def seconds_of(run: Callable[[], object]) -> float:
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
    for layer in model.model.layers:
        layer.self_attn.q_proj.weight.data *= 16  # heads then attend to a few keys, as trained ones do
    origin = Origin("smollm2-135m", "smollm2-135m", OriginOptions())
    about = {"model": "smollm2-135m", "type": "llama"}
    return ModelSource(LoadedModel(model.model, None, about, origin, model))
