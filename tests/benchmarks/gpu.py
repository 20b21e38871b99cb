"""The cost of the GPU kernels: one layer of long texts, against torch's flash attention, and whole models."""

import statistics
from collections.abc import Callable, Iterator

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import LlamaConfig, LlamaModel

from attn_cli import HeadStatistics, OverallKeys, ReceivedShares, Rule, TopKeys, reduce
from attn_cli.attention_call import AttentionCall
from attn_cli.call import Output, Place
from attn_cli.kernel.definition.masks import Causal
from attn_cli.prompt import Token
from attn_cli.summaries.reduce import Reducer
from attn_cli.summaries.reducers.kinds.reducer import HeadKindsReducer
from tests.benchmarks.capture import looked, plain
from tests.benchmarks.timing import Row

HEADS, KEY_HEADS, WIDTH = 32, 8, 128
READERS: dict[str, tuple[Callable[[HeadKindsReducer], list[Reducer]], float | None]] = {
    "heads": (lambda _: [HeadStatistics()], 1.25),
    "heads --kinds": (lambda kinds: [kinds], None),
    "top --overall": (lambda _: [OverallKeys(5)], None),
    "inspect": (lambda _: [HeadStatistics(), ReceivedShares()], None),
    "top, every query": (lambda _: [TopKeys(5)], None),
}


def rows(repeats: int, *, quick: bool) -> Iterator[Row | str]:
    """A layer of 32 heads over 8 of 128 numbers, bfloat16, causal: times and memory against flash attention."""
    if not torch.cuda.is_available():
        yield "gpu: no GPU here"
        return
    yield f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    for n in (8192,) if quick else (8192, 32_768):
        yield from _layer(n, repeats)
    for n in (2048, 8192) if quick else (2048, 8192, 32_768):
        yield from _whole_model(n, repeats)


def _layer(n: int, repeats: int) -> Iterator[Row | str]:
    random = torch.Generator("cuda").manual_seed(0)
    shapes = ((HEADS, n, WIDTH), (KEY_HEADS, n, WIDTH), (KEY_HEADS, n, WIDTH))
    q, k, v = (torch.randn(s, generator=random, device="cuda", dtype=torch.bfloat16) for s in shapes)
    labels = tuple(Token(i, f"t{i % 997}", i % 997) for i in range(n))
    place = Place(0, "layer", tuple(range(HEADS)), tuple(head // (HEADS // KEY_HEADS) for head in range(HEADS)))
    kinds = HeadKindsReducer()  # what they say of a text is made for the first layer alone

    def flash() -> None:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True, enable_gqa=True)

    def reader(make: Callable[[HeadKindsReducer], list[Reducer]]) -> Callable[[], object]:
        def run() -> None:
            call = AttentionCall(
                q, k, v, Rule(WIDTH**-0.5, mask=Causal()), place, labels, labels, Output(torch.empty_like(q))
            )
            reduce(call, *make(kinds))

        return run

    runs = {name: reader(make) for name, (make, _) in READERS.items()}
    bars = {name: bar for name, (_, bar) in READERS.items()}
    yield from _compared(f"a layer, n = {n:,}", "flash attention", flash, runs, bars, repeats)


def _whole_model(n: int, repeats: int) -> Iterator[Row | str]:
    """A model of the size of Llama 3.2 1B, random weights in bfloat16, one text: against its plain pass on SDPA."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=32_000, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
        num_key_value_heads=8, max_position_embeddings=n, attn_implementation="sdpa", dtype="bfloat16",
    )  # fmt: skip
    with torch.device("cuda"):
        model = LlamaModel(config).to(torch.bfloat16).eval()
        ids = torch.randint(0, 1000, (1, n))
    kinds = HeadKindsReducer()
    runs = {name: looked(model, ids, lambda make=make: make(kinds)) for name, (make, _) in READERS.items()}
    runs["top, last query"] = looked(model, ids, lambda: [TopKeys(5, rows=[n - 1])])
    yield from _compared(f"Llama 1B, n = {n:,}", "plain SDPA forward", plain(model, ids), runs, {}, repeats)


def _compared(
    what: str,
    against: str,
    reference: Callable[[], object],
    runs: dict[str, Callable[[], object]],
    bars: dict[str, float | None],
    repeats: int,
) -> Iterator[Row | str]:
    """Time and memory of each run against the reference; they take turns."""
    least = _memory(reference)
    over = {name: _memory(run) - least for name, run in runs.items()}  # compiles, too
    times: dict[str, list[float]] = {name: [] for name in ("", *runs)}
    for _ in range(repeats):
        for name, run in {"": reference, **runs}.items():
            times[name].append(_seconds(run))
    for name, run_times in list(times.items())[1:]:
        ratio = statistics.median(b / a for a, b in zip(times[""], run_times, strict=True))
        yield Row(f"{what}: {name}", against, statistics.median(times[""]), ratio, bars.get(name))
        yield f"  memory over {against} {over[name]:,.0f} MiB (bar 1,024)"


def _memory(run: Callable[[], object]) -> float:
    """The most memory of the GPU in MiB that a run takes beside what is there."""
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def _seconds(run: Callable[[], object]) -> float:
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    begin.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) / 1000
