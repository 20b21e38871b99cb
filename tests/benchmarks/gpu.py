"""The cost of the GPU kernels: one layer of long texts, against torch's flash attention. Needs a GPU."""

import statistics
from collections.abc import Callable, Iterator

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from attn_cli import HeadStatistics, OverallKeys, ReceivedShares, Rule, TopKeys, reduce
from attn_cli.attention_call import AttentionCall
from attn_cli.call import Output, Place
from attn_cli.kernel.definition.masks import Causal
from attn_cli.prompt import Token
from attn_cli.summaries.reduce import Reducer
from attn_cli.summaries.reducers.kinds.reducer import HeadKindsReducer, KindTexts
from tests.benchmarks.timing import Row

HEADS, KEY_HEADS, WIDTH = 32, 8, 128
READERS: dict[str, tuple[Callable[[tuple[Token, ...]], list[Reducer]], float | None]] = {
    "heads": (lambda _: [HeadStatistics()], 1.25),
    "heads --kinds": (lambda tokens: [HeadKindsReducer(KindTexts([tokens]))], None),
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


def _layer(n: int, repeats: int) -> Iterator[Row | str]:
    random = torch.Generator("cuda").manual_seed(0)
    shapes = ((HEADS, n, WIDTH), (KEY_HEADS, n, WIDTH), (KEY_HEADS, n, WIDTH))
    q, k, v = (torch.randn(s, generator=random, device="cuda", dtype=torch.bfloat16) for s in shapes)
    labels = tuple(Token(i, f"t{i % 997}", i % 997) for i in range(n))
    place = Place(0, "layer", tuple(range(HEADS)), tuple(head // (HEADS // KEY_HEADS) for head in range(HEADS)))

    def flash() -> None:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True, enable_gqa=True)

    def reader(make: Callable[[tuple[Token, ...]], list[Reducer]]) -> Callable[[], object]:
        def run() -> None:
            call = AttentionCall(
                q, k, v, Rule(WIDTH**-0.5, mask=Causal()), place, labels, labels, Output(torch.empty_like(q))
            )
            reduce(call, *make(labels))

        return run

    runs = {name: reader(make) for name, (make, _) in READERS.items()}
    plain = _memory(flash)
    over = {name: _memory(run) - plain for name, run in runs.items()}  # compiles, too
    times: dict[str, list[float]] = {name: [] for name in ("", *runs)}
    for _ in range(repeats):
        for name, run in {"": flash, **runs}.items():
            times[name].append(_seconds(run))
    for name, run_times in list(times.items())[1:]:
        ratio = statistics.median(b / a for a, b in zip(times[""], run_times, strict=True))
        yield Row(
            f"a layer, n = {n:,}: {name}", "flash attention", statistics.median(times[""]), ratio, READERS[name][1]
        )
        yield f"  memory over flash attention {over[name]:,.0f} MiB (bar 1,024)"


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
