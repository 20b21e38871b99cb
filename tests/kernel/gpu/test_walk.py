"""The kernels of the GPU are the definition: outputs and all that is noted of rows, in Triton's interpreter."""

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from attn_cli.arrays import to_numpy
from attn_cli.attention_call import AttentionCall
from attn_cli.call import Output, Place
from attn_cli.kernel.cpu import walk as cpu
from attn_cli.kernel.cpu.walk import row_stats as cpu_row_stats
from attn_cli.kernel.definition import dense
from attn_cli.kernel.definition.bias import Alibi, BiasSum, GivenBias
from attn_cli.kernel.definition.mask import Mask
from attn_cli.kernel.definition.masks import Causal, Given, Intersection, Window
from attn_cli.kernel.definition.rule import Rule
from attn_cli.kernel.gpu import walk
from attn_cli.kernel.gpu.kernel_call import KernelTile, tile_of
from attn_cli.kernel.gpu.walk import row_stats
from attn_cli.kernel.stats import compiled
from attn_cli.kernel.stats.one_walk import OneWalk, WalkStats
from attn_cli.kernel.stats.wanted import Pool
from attn_cli.prompt import Token
from attn_cli.summaries.reduce import Reducer, reduce
from attn_cli.summaries.reducers.heads import HeadStatistics
from attn_cli.summaries.reducers.keys import ReceivedShares
from attn_cli.summaries.reducers.kinds.reducer import HeadKindsReducer
from tests.kernel.cpu.test_walk import agree, key_lists, masks

triton = pytest.importorskip("triton", reason="Triton has no wheel for this machine")
interpreter = pytest.importorskip("triton.runtime.interpreter")
RANDOM = np.random.default_rng(5)
N, M = 21, 37
HALF = [torch.float16, *([torch.bfloat16] if os.environ["TRITON_INTERPRET"] == "0" else [])]
DEVICE = "cuda" if os.environ["TRITON_INTERPRET"] == "0" and torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def language_is_exchanged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter does so at each call of a function in a kernel, which takes a third of its time."""
    exchanged: set[int] = set()  # modules of such functions

    def call(function: Any, *arguments: Any, **options: Any) -> Any:
        module = id(function.fn.__globals__)
        if module not in exchanged:
            interpreter._patch_lang(function.fn)
            exchanged.add(module)
        return function.rewrite()(*arguments, **options)

    monkeypatch.setattr(interpreter.InterpretedFunction, "__call__", call)


def arrays(h: int, g: int, n: int, m: int, d: int, e: int) -> list[np.ndarray]:
    return [RANDOM.normal(size=size).astype(np.float32) for size in ((h, n, d), (g, m, d), (g, m, e))]


def on_device(x: np.ndarray) -> torch.Tensor:
    return torch.tensor(x, device=DEVICE)


def in_numpy(numbers: WalkStats) -> WalkStats:
    return replace(numbers, **{name: to_numpy(x) for name, x in vars(numbers).items() if x is not None})


def walked(q: np.ndarray, k: np.ndarray, v: np.ndarray, rule: Rule, needs: OneWalk, tile: KernelTile) -> WalkStats:
    output = torch.empty(q.shape[0], q.shape[1], v.shape[2], device=DEVICE)
    numbers = row_stats(*map(on_device, (q, k, v)), rule, needs, output, tile=tile)
    assert numbers is not None
    return in_numpy(numbers)


def needs_of(n: int, m: int, top: int = 3, *, longest: int = 3) -> OneWalk:
    return OneWalk(
        moments=True,
        key_sets=(RANDOM.integers(-1, m, size=(n, 1)), key_lists(RANDOM, n, m, longest)),
        vectors=tuple(RANDOM.normal(size=(2, m)).astype(np.float32)),
        column_sums=True,
        top=top,
        pool=Pool(8, 11),
    )


# The kernels are given each row's first and last key, or cells: two masks of the same form prove the same.
@pytest.mark.parametrize("name", ["causal to the last key", "window", "padding", "given", "given, one for all heads",
                                  "no key"])  # fmt: skip
def test_every_form_of_mask(name: str) -> None:
    q, k, v = arrays(2, 1, N, M, 8, 12)
    rule, needs = Rule(0.4, mask=masks(N, M)[name]), needs_of(N, M)
    for picked in (needs, replace(needs, rows=(0, 3, 4, 17, N - 1), pool=Pool(2, 11))):
        agree(walked(q, k, v, rule, picked, KernelTile(16, 16)), q, k, v, rule, picked)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (40, 17)])
def test_blocks_learned_sinks_and_heads_that_share_keys(n: int, m: int) -> None:
    q, k, v = arrays(4, 2, n, m, 24, 5)
    sink = RANDOM.normal(size=4).astype(np.float32)
    rule = Rule(24**-0.5, mask=Causal(m - n), sink=sink)
    needs = replace(needs_of(n, m, top=2, longest=19), pool=Pool(5, 3))
    agree(walked(q, k, v, rule, needs, KernelTile(32, 16)), q, k, v, rule, needs)


def biases() -> dict[str, object]:
    numbers = RANDOM.normal(size=(4, N, M)).astype(np.float32)
    return {
        "ALiBi": Alibi(torch.tensor([0.5, 0.25, 0.1, 0.0]), M - N),
        "numbers of every head": torch.tensor(numbers),
        "numbers of all heads": GivenBias(torch.tensor(numbers[0])),
        "numbers of every key": torch.tensor(numbers[:1, :1]),
    }


@pytest.mark.parametrize(("name", "softcap"), [*zip(biases(), [None, 3.0, None, 3.0], strict=True)])
def test_softcaps_and_biases(name: str, softcap: float | None) -> None:
    q, k, v = arrays(4, 2, N, M, 16, 16)
    mask = Intersection((Causal(M - N), Window(13, M - N)))
    rule = Rule(0.8, softcap=softcap, bias=biases()[name], mask=mask)
    keys = RANDOM.integers(-1, M, size=(N, 1))
    needs = OneWalk(moments=True, key_sets=(keys,), column_sums=True, pool=Pool(8, 11))
    numbers = walked(q, k, v, rule, needs, KernelTile(16, 16))
    exact = dense.attend(*(torch.tensor(x, dtype=torch.float64) for x in (q, k, v)), rule)
    weights, scores = exact.weights.numpy(), exact.scores.numpy()
    np.testing.assert_allclose(numbers.output, exact.output.numpy(), rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(numbers.maximum, scores.max(axis=-1), rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(numbers.column_sums, weights.sum(axis=1), rtol=2e-5, atol=2e-5)
    cells = np.where(keys >= 0, weights[:, np.arange(N)[:, None], np.maximum(keys, 0)], 0)
    np.testing.assert_allclose(numbers.key_sums, cells, rtol=2e-5, atol=2e-5)
    entropy = -(weights * np.log(weights, out=np.zeros_like(weights), where=weights > 0)).sum(axis=-1)
    np.testing.assert_allclose(numbers.entropy_nats, entropy, rtol=2e-5, atol=2e-5)
    largest = np.maximum.reduceat(np.maximum.reduceat(weights, [0, 8, 16], axis=1), [0, 11, 22, 33], axis=2)
    np.testing.assert_allclose(numbers.pooled, largest, rtol=2e-5, atol=2e-5)
    some = walked(q, k, v, rule, OneWalk(moments=True, key_sets=(keys,), rows=(2, 20)), KernelTile(16, 16))
    for of_some, of_all in ((some.maximum, numbers.maximum), (some.distance, numbers.distance)):
        np.testing.assert_allclose(of_some, np.asarray(of_all)[:, [2, 20]], rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(some.key_sums, cells[:, [2, 20]], rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(some.output, exact.output.numpy(), rtol=2e-5, atol=2e-5)


def test_no_row_at_all_gives_sums_of_nothing() -> None:
    q, k, v = arrays(2, 1, N, M, 8, 12)
    rule, needs = Rule(0.4, mask=Causal(M - N)), replace(needs_of(N, M), rows=())
    numbers, by_hand = walked(q, k, v, rule, needs, KernelTile(16, 16)), cpu_row_stats(q, k, v, rule, needs, None)
    for name, x in vars(by_hand).items():
        if name != "output":
            assert np.asarray(getattr(numbers, name)).tolist() == np.asarray(x).tolist(), name
    np.testing.assert_allclose(numbers.output, dense.attend(q, k, v, rule).output, rtol=2e-5, atol=2e-5)


def test_equal_weights_rank_by_key_and_a_row_names_all_its_keys() -> None:
    x = np.zeros((1, 3, 4), np.float32)
    numbers = walked(x, x, x, Rule(1.0, mask=Causal()), OneWalk(top=3), KernelTile(16, 16))
    assert numbers.top_keys.tolist() == [[[0, -1, -1], [0, 1, -1], [0, 1, 2]]]
    np.testing.assert_allclose(numbers.top_weights[0], [[1, 0, 0], [0.5, 0.5, 0], [1 / 3] * 3], rtol=1e-6)
    assert np.isneginf(numbers.top_scores[0, 0]).tolist() == [False, True, True]


@pytest.mark.parametrize("dtype", HALF)
def test_half_precision_is_multiplied_as_it_is_and_summed_in_float32(dtype: torch.dtype) -> None:
    q, k, v = (on_device(x).to(dtype) for x in arrays(2, 2, 33, 33, 16, 16))
    output = torch.empty(2, 33, 16, dtype=dtype, device=DEVICE)
    numbers = row_stats(q, k, v, Rule(0.25, mask=Causal()), OneWalk(moments=True), output, tile=KernelTile(16, 16))
    exact = dense.attend(*(x.double().cpu() for x in (q, k, v)), Rule(0.25, mask=Causal()))
    weights, close = exact.weights.numpy(), 4 * torch.finfo(dtype).eps
    np.testing.assert_allclose(output.float().cpu().numpy(), exact.output.numpy(), rtol=close, atol=close)
    entropy = -(weights * np.log(weights, out=np.zeros_like(weights), where=weights > 0)).sum(axis=-1)
    np.testing.assert_allclose(in_numpy(numbers).entropy_nats, entropy, rtol=2e-5, atol=2e-5)


def test_scores_of_any_size_and_what_is_not_finite() -> None:
    q, k, v = arrays(1, 1, 18, 18, 4, 4)
    rule = Rule(1000.0, mask=Causal())
    numbers = walked(q, k, v, rule, OneWalk(moments=True), KernelTile(16, 16))
    exact = dense.attend(*(x.astype(np.float64) for x in (q, k, v)), rule)
    np.testing.assert_allclose(numbers.output, exact.output, rtol=2e-3, atol=2e-3)
    q[0, 7, 0] = np.nan
    numbers = walked(q, k, v, rule, OneWalk(moments=True), KernelTile(16, 16))
    assert np.isnan(numbers.output).any(axis=-1)[0].nonzero()[0].tolist() == [7]
    q[0, 7, 0] = 1.0
    v[0, 16, 0], v[0, 17, 0], v[0, 3, 1] = np.inf, -np.inf, np.nan  # where masked they must not matter
    output = np.asarray(walked(q, k, v, Rule(0.1, mask=Causal()), OneWalk(), KernelTile(16, 16)).output)[0]
    assert np.isfinite(output[:16, 0]).all() and np.isfinite(output[:3, 1]).all() and np.isfinite(output[:, 2:]).all()
    assert np.isposinf(output[16, 0]) and np.isnan(output[17, 0]) and np.isnan(output[3:, 1]).all()
    exact = dense.attend(
        *(x.astype(np.float64) for x in (q, k, np.nan_to_num(v, posinf=0, neginf=0))), Rule(0.1, mask=Causal())
    )
    np.testing.assert_allclose(output[:3], exact.output[0, :3], rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(output[:, 2:], exact.output[0, :, 2:], rtol=2e-5, atol=2e-5)


def test_it_takes_arrays_with_gaps_and_writes_where_a_model_reads() -> None:
    q, k, v = (on_device(RANDOM.normal(size=(20, 2, 8)).astype(np.float32)).transpose(0, 1) for _ in "qkv")
    there = torch.zeros(20, 2, 8, device=DEVICE)
    row_stats(q, k, v, Rule(0.3, mask=Causal()), OneWalk(), there.transpose(0, 1), tile=KernelTile(16, 16))
    expected = torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True, scale=0.3)
    torch.testing.assert_close(there.transpose(0, 1), expected[0], rtol=1e-5, atol=1e-5)


def test_reducers_read_the_same_from_it_as_from_bands(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = (on_device(x).half() for x in arrays(2, 1, 20, 20, 16, 16))
    tokens = tuple(Token(j, f"t{j % 7}", j % 7) for j in range(20))
    place = Place(0, "layer", (0, 1), (0, 0))

    def read(*reducers: Reducer) -> list[np.ndarray]:
        output = Output(torch.empty(2, 20, 16, dtype=torch.float16, device=DEVICE))
        call = AttentionCall(q, k, v, Rule(0.25, mask=Causal()), place, tokens, tokens, output)
        parts = reduce(call, *reducers).parts
        assert output.complete
        return [*(x for part in parts for x in part.arrays().values()), output.array.float().cpu().numpy()]

    def summary() -> list[np.ndarray]:
        return read(HeadStatistics(), ReceivedShares()) + read(HeadKindsReducer())

    monkeypatch.setattr(cpu, "suits", lambda *call: False)  # which walks it on a processor
    by_bands = summary()

    def walked(q: Any, k: Any, v: Any, rule: Rule, *asked: Any) -> WalkStats | None:  # as on a GPU
        return walk.row_stats(q, k, v, rule, *asked) if walk.can_walk(q, k, v, rule) else None

    monkeypatch.setattr(compiled, "walked_at_once", walked)
    calls = []
    monkeypatch.setattr(walk, "row_stats", lambda *a, **o: calls.append(1) or row_stats(*a, **o))
    for one, other in zip(by_bands, summary(), strict=True):
        if one.dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-3)
        else:
            assert one.tolist() == other.tolist()  # the kinds' letters
    assert calls == [1, 1, 1]  # the kinds' column sums of the rows that see few keys are a walk of their own


def test_what_it_does_not_walk() -> None:
    x, rule = torch.ones(1, 4, 8), Rule(1.0)
    assert walk.can_walk(x, x, x, rule)
    assert not walk.suits(x, x, x, rule)  # on a processor
    assert not walk.can_walk(x.double(), x.double(), x.double(), rule)
    assert not walk.can_walk(x.half(), x, x, rule)
    assert not walk.can_walk(x, x, x, Rule(1.0, softmax=False))
    assert not walk.can_walk(x, x, x, Rule(1.0, bias=BiasSum([Alibi(torch.ones(1))])))
    assert not walk.can_walk(*[torch.ones(1, 4, 512)] * 3, rule)
    mask: Mask = Given(torch.tensor([[True, False, True, True]] * 4))  # rows with holes
    assert row_stats(x, x, x, Rule(1.0, mask=mask), OneWalk(), None) is None


def test_every_kernel_compiles_for_a_gpu_and_its_tiles_fit() -> None:
    tile = tile_of(*[torch.empty(1, 1, 64, dtype=torch.bfloat16)] * 2)
    code = "from tests.kernel.gpu.compiling import main; main()"
    words = ["bfloat16", *map(str, tile)]
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    lines = dict(line.split(": ") for line in done.stdout.splitlines())
    assert set(lines) == {"forward", "forward with marks", "column_sums", "blocks", "cell_weights", "largest_keys"}
    assert max(map(int, lines.values())) <= 163 * 1024  # bytes of shared memory of an A100's processor
