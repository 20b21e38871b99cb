"""A call as the compiled code takes it: laid out in memory, asked for numbers of rows, walked by some threads."""

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, reduce
from operator import or_

import numpy as np

from attn_cli.kernel.bands.threads import cores
from attn_cli.kernel.cpu.c_library import AttentionStruct, library
from attn_cli.kernel.definition.mask import Intervals
from attn_cli.kernel.stats.one_walk import NOTED_MOMENTS, OneWalk, WalkStats

_PANEL = 64  # keys lie in panels of so many, on any processor
_PANEL_BYTES = 16 * 2**20  # of packed keys at a time; one key head at least
_TASK_ROWS = 192  # query rows that a thread takes at a time
_NOTED = {  # fields of the struct, by those of `WalkStats`
    **{"entropy" if name == "entropy_nats" else name: name for name in NOTED_MOMENTS},
    **{name: name for name in ("key_sums", "vector_sums", "top_weights", "top_scores", "top_keys", "pooled")},
    "received": "column_sums",
}
_NO_MEMORY = 2  # what a thread without memory returns
_THREADED = 2**21  # unmasked scores times head size; fewer are computed before a second thread has begun


@dataclass(frozen=True, eq=False)
class AskedKeys:
    """The sets of keys, vectors and rows of which compiled code computes sums of weights, as C arrays.

    key_sets   the keys of each query, all sets side by side `[n, columns]`, -1 for none; None without sets
    set_ends   the column after each set `[key_sets]`
    vectors    r vectors by which weights are multiplied `[r, m rounded up to 64]`, or None
    places     the row of the result for each of n queries `[n]`, -1 for none; None for all rows in their order
    """

    key_sets: np.ndarray | None
    set_ends: np.ndarray
    vectors: np.ndarray | None
    places: np.ndarray | None
    rows: int

    @classmethod
    def of(cls, walk: OneWalk, n: int, m: int) -> "AskedKeys":
        """What `walk`, a request for statistics of rows, asks about, as arrays for the compiled code."""
        key_sets = np.concatenate(walk.key_sets, axis=1, dtype=np.int32) if walk.key_sets else None
        ends = np.cumsum([keys.shape[1] for keys in walk.key_sets], dtype=np.int32)
        vectors = None
        if walk.vectors:
            vectors = np.zeros((len(walk.vectors), _padded(m)), np.float32)
            for row, vector in zip(vectors, walk.vectors, strict=True):
                row[:m] = vector
        places, rows = None, n
        if walk.rows is not None:
            places, rows = np.full(n, -1, np.int32), len(walk.rows)
            places[list(walk.rows)] = np.arange(rows)
        return cls(key_sets, ends, vectors, places, rows)


@dataclass(frozen=True, eq=False)
class CompiledRule:
    """The rule but its mask for compiled code: bias `[1 or h, 1 or n, m]`, sink `[h]`, float32; softcap 0: none."""

    scale: float
    softcap: float
    bias: np.ndarray | None
    sink: np.ndarray | None

    def write(self, job: AttentionStruct, heads: slice) -> None:
        """Set scale, softcap, bias and sink in the struct that the compiled code is called with, for these heads."""
        job.scale, job.softcap = self.scale, self.softcap
        if self.sink is not None:
            job.sink = self.sink[heads].ctypes.data
        if self.bias is not None:
            bias = self.bias[heads] if self.bias.shape[0] > 1 else self.bias
            head, row, _ = (step // bias.itemsize for step in bias.strides)
            job.bias = bias.ctypes.data
            job.bias_head, job.bias_row = (
                step if size > 1 else 0 for step, size in zip((head, row), bias.shape, strict=False)
            )


@dataclass(frozen=True, eq=False)
class CompiledCall:
    """A call's q, k and v in float32 as compiled code takes them, and memory for the statistics of its rows.

    q        `[h, n, d]` of h query heads; k `[g, m, d]` of g key heads; v `[g, m, e]`
    wanted   which statistics; they are written to `stats`
    vectors  how wide vector registers are used: 0 128 bits, 1 AVX2, 2 AVX-512
    """

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    span: Intervals
    rule: CompiledRule
    asked: AskedKeys
    wanted: OneWalk
    stats: WalkStats
    vectors: int

    def parts(self) -> Iterator[slice]:
        """Slices of key heads to compute one after the other: each as many as a copy of their keys in 16 MiB allows."""
        g, m, d = self.k.shape
        at_once = max(1, _PANEL_BYTES // (4 * d * _padded(m)))
        return (slice(start, min(start + at_once, g)) for start in range(0, g, at_once))

    def walk(self, key_heads: slice) -> bool:
        """Compute the statistics of these key heads' query heads into `stats`; False where q, k or v isn't finite."""
        share = self.q.shape[0] // self.k.shape[0]
        heads = slice(key_heads.start * share, key_heads.stop * share)
        k, v = self.k[key_heads], self.v[key_heads]
        (g, m, d), e, h, n = k.shape, v.shape[2], heads.stop - heads.start, self.q.shape[1]
        panels, locks = np.empty(g * _padded(m) * d, np.float32), np.zeros(h, np.int32)
        job = AttentionStruct(h=h, g=g, n=n, m=m, d=d, e=e, offset=m - n)
        output = () if self.stats.output is None else (("output", self.stats.output[heads]),)
        for name, x in (("q", self.q[heads]), ("k", k), ("v", v), *output):
            setattr(job, name, x.ctypes.data)
            setattr(job, f"{name}_head", x.strides[0] // x.itemsize)
            setattr(job, f"{name}_row", x.strides[1] // x.itemsize)
        job.first, job.last = self.span.first.ctypes.data, self.span.last.ctypes.data
        job.panels, job.locks = panels.ctypes.data, locks.ctypes.data
        job.task_rows = _TASK_ROWS
        self.rule.write(job, heads)
        self._write_wanted(job, heads)
        cells = int(np.maximum(self.span.last - self.span.first, 0).sum(dtype=np.int64))
        return _run(job, self.vectors, h * cells * d)

    def _write_wanted(self, job: AttentionStruct, heads: slice) -> None:
        """Say in the job what is noted, and where."""
        for field, name in _NOTED.items():
            memory = getattr(self.stats, name)
            if memory is not None:
                setattr(job, field, memory[heads].ctypes.data)
        job.count, asked = self.wanted.top, self.asked
        job.noted = asked.rows
        if asked.places is not None:
            job.places = asked.places.ctypes.data
        if asked.key_sets is not None:
            job.key_sets, job.set_columns = len(asked.set_ends), asked.key_sets.shape[1]
            job.set_keys, job.set_ends = asked.key_sets.ctypes.data, asked.set_ends.ctypes.data
        if asked.vectors is not None:
            job.vectors, job.vector_values = len(asked.vectors), asked.vectors.ctypes.data
        if self.wanted.pool is not None:
            pool = self.wanted.pool
            job.pool_rows, job.pool_keys = pool.rows, pool.keys
            # No two threads write to a block.
            job.task_rows = job.n if asked.places is not None else -(-job.task_rows // pool.rows) * pool.rows


def _padded(m: int) -> int:
    return -(-m // _PANEL) * _PANEL


@cache
def _pool() -> ThreadPoolExecutor:
    """The pool of cores() - 1 threads, at least 1, that work beside the calling one; one pool for all callers."""
    return ThreadPoolExecutor(max(1, cores() - 1), thread_name_prefix="attn-fused")


_forked: list[int] = []  # the processes that were forked on the way here, of which OpenMP knows nothing


def _after_fork() -> None:
    _pool.cache_clear()
    _forked.append(os.getpid())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@cache
def _openmp() -> int | None:
    """The address of the function by which torch's OpenMP starts a team of threads; None where there is none."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    try:
        return ctypes.cast(ctypes.CDLL(torch._C.__file__).GOMP_parallel, ctypes.c_void_p).value
    except (OSError, AttributeError):
        return None


def _team() -> tuple[int, int] | None:
    """What runs compiled code on torch's own OpenMP threads: the address of OpenMP's function, and their number."""
    openmp = None if _forked else _openmp()
    return None if openmp is None else (openmp, sys.modules["torch"].get_num_threads())


def _run(job: AttentionStruct, vectors: int, size: int) -> bool:
    code = library()
    assert code is not None
    work: Callable[[int, int], int] = code.attn_fused_work
    address, threads = ctypes.addressof(job), cores() if size >= _THREADED else 1
    started_by = _team() if threads > 1 else None
    if started_by is not None:
        codes = int(code.attn_fused_team(address, vectors, *started_by))
    else:
        helping = [_pool().submit(work, address, vectors) for _ in range(threads - 1)]
        codes = reduce(or_, (helper.result() for helper in helping), work(address, vectors))
    if codes & _NO_MEMORY:
        raise MemoryError
    return not codes
