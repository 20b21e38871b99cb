"""The compiled code of the fused walk, its arguments and its threads.

It is loaded when a call is walked with it: commands without a model start without any of this.
"""

import ctypes
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, reduce
from importlib.util import find_spec
from operator import or_
from typing import Protocol

import numpy as np

from attn_cli.kernel.walk.gaps import Gaps
from attn_cli.kernel.walk.intervals import Intervals
from attn_cli.kernel.walk.row_numbers import MOMENTS, RowNeeds, RowNumbers
from attn_cli.kernel.walk.threads import cores

_PANEL = 64  # keys lie in panels of so many, on any processor
_PANEL_BYTES = 16 * 2**20  # of packed keys at a time; one key head at least
_TASK_ROWS = 192  # query rows that a thread takes at a time
_MEAN_ROWS = 48  # the same where it takes them of all heads
_NO_MEMORY = 2  # what a thread without memory returns
_THREADED = 2**21  # unmasked scores times head size; fewer are computed before a second thread has begun

_INT, _FLOAT, _POINTER = ctypes.c_int64, ctypes.c_float, ctypes.c_void_p


class _Attention(ctypes.Structure):
    """The struct of that name in fused.c, field by field."""

    _fields_ = [
        *((name, _INT) for name in ("h", "g", "n", "m", "d", "e")),
        *((name, _POINTER) for name in ("q", "k", "v")),
        *((name, _INT) for name in ("q_head", "q_row", "k_head", "k_row", "v_head", "v_row")),
        ("first", _POINTER),
        ("last", _POINTER),
        ("gap_rows", _POINTER),
        ("gaps", _POINTER),
        ("gap_head", _INT),
        ("places", _POINTER),
        ("noted", _INT),
        ("scale", _FLOAT),
        ("softcap", _FLOAT),
        ("bias", _POINTER),
        ("bias_head", _INT),
        ("bias_row", _INT),
        ("sink", _POINTER),
        ("offset", _INT),
        ("output", _POINTER),
        ("output_head", _INT),
        ("output_row", _INT),
        *((name, _POINTER) for name in MOMENTS),
        ("cells", _INT),
        ("cell_keys", _POINTER),
        ("cell_weights", _POINTER),
        *((name, _INT) for name in ("lists", "list_columns")),
        *((name, _POINTER) for name in ("list_keys", "list_ends", "list_sums")),
        ("marks", _INT),
        ("mark_values", _POINTER),
        ("mark_sums", _POINTER),
        ("steps", _INT),
        ("step_edges", _POINTER),
        ("step_sums", _POINTER),
        ("received", _POINTER),
        ("few", _INT),
        ("received_few", _POINTER),
        ("means", _INT),
        ("count", _INT),
        ("top_weights", _POINTER),
        ("top_scores", _POINTER),
        ("top_keys", _POINTER),
        *((name, _INT) for name in ("pool_rows", "pool_keys", "pool_sums")),
        ("pooled", _POINTER),
        ("panels", _POINTER),
        *((name, _INT) for name in ("task_rows", "next_piece", "packed_pieces", "next_task", "broken_values")),
        ("locks", _POINTER),
    ]


class _TextSum(ctypes.Structure):
    """The struct of that name in text_sums.h, field by field."""

    _fields_ = [
        ("columns", _INT),
        ("x", _POINTER),
        *((name, _INT) for name in ("x_head", "x_row", "x_column")),
        ("factors", _POINTER),
        *((name, _INT) for name in ("factor_row", "factor_column")),
        *((name, _POINTER) for name in ("given", "least", "sums")),
        *((name, _INT) for name in ("sums_head", "sums_text")),
    ]


class _TextSums(ctypes.Structure):
    """The struct of that name in text_sums.h, field by field."""

    _fields_ = [
        *((name, _INT) for name in ("h", "texts", "n", "count")),
        ("wanted", _POINTER),
        ("next", _INT),
    ]


class _Strongest(ctypes.Structure):
    """The struct of that name in strongest.h, field by field."""

    _fields_ = [
        *((name, _INT) for name in ("h", "texts", "n", "kinds", "most")),
        *((name, _POINTER) for name in ("weights", "bits", "least", "order", "rows")),
        ("next", _INT),
    ]


def _built_file() -> str | None:
    """Where the compiled code was built, of whatever version."""
    spec = find_spec("attn_cli.kernel.walk._fused")
    return None if spec is None else spec.origin


@cache
def _library() -> ctypes.CDLL | None:
    """The compiled code; None where it wasn't built, or is of another version."""
    path = _built_file()
    if path is None:
        return None
    try:
        library = ctypes.CDLL(path)
    except OSError:
        return None
    if not hasattr(library, "attn_fused_team"):
        return None
    library.attn_fused_size.restype = ctypes.c_size_t
    library.attn_fused_work.argtypes = [_POINTER, ctypes.c_int]
    library.attn_fused_team.argtypes = [_POINTER, ctypes.c_int, _POINTER, ctypes.c_uint]
    return library if library.attn_fused_size() == ctypes.sizeof(_Attention) and _sums_texts(library) else None


def _sums_texts(library: ctypes.CDLL) -> bool:
    """Whether the compiled code has what is done with rows of texts, as this version knows it."""
    for name, structs in (("attn_text_sums", (_TextSums, _TextSum)), ("attn_strongest", (_Strongest,))):
        if not hasattr(library, name):
            return False
        size, work = getattr(library, f"{name}_size"), getattr(library, name)
        size.restype, work.argtypes, work.restype = ctypes.c_size_t, [_POINTER, _POINTER, ctypes.c_uint], None
        if size() != sum(map(ctypes.sizeof, structs)):
            return False
    return True


def is_built() -> bool:
    """Whether the compiled code is there."""
    return _library() is not None


def is_unfit() -> bool:
    """Whether compiled code is there that can't be used: of another version, or of another system."""
    return _built_file() is not None and _library() is None


VECTORS = ("128 bits", "AVX2", "AVX-512")  # the widths that the compiled code knows, by their number


def widest_vectors() -> int:
    """The widest vectors that both this processor and the compiled code know, as a place in `VECTORS`."""
    library = _library()
    return 0 if library is None else int(library.attn_fused_widest())


@cache
def _threads() -> ThreadPoolExecutor:
    """The threads that help the one that asks: one for every other core."""
    return ThreadPoolExecutor(max(1, cores() - 1), thread_name_prefix="attn-fused")


_forked: list[int] = []  # the processes that were forked on the way here, of which OpenMP knows nothing


def _after_fork() -> None:
    """A forked process has none of its parent's threads, and needs its own; OpenMP would wait for the parent's."""
    _threads.cache_clear()
    _forked.append(os.getpid())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@cache
def _openmp() -> int | None:
    """The address of the function by which torch's OpenMP starts a team of threads; None where there is none.

    Its threads spin for some milliseconds after each of torch's operations. Others beside them would wait for a core.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    try:
        return ctypes.cast(ctypes.CDLL(torch._C.__file__).GOMP_parallel, ctypes.c_void_p).value
    except (OSError, AttributeError):
        return None


@dataclass(frozen=True, eq=False)
class AskedKeys:
    """The keys that needs name, in the layout of the compiled code.

    cells      `[n, cells]`, or None
    lists      all lists side by side `[n, columns]`
    list_ends  the column after each list `[lists]`
    marks      `[r, m rounded up to 64]`
    steps      the edges between stretches of keys `[steps + 1]`
    places     where each row is noted, -1 for nowhere `[n]`; None for all rows in their order
    """

    cells: np.ndarray | None
    lists: np.ndarray | None
    list_ends: np.ndarray
    marks: np.ndarray | None
    steps: np.ndarray | None
    places: np.ndarray | None

    @classmethod
    def of(cls, needs: RowNeeds, n: int, m: int) -> "AskedKeys":
        """The keys of `needs` in a call with n queries and m keys."""
        cells = None if needs.cells is None else np.ascontiguousarray(needs.cells, dtype=np.int32)
        lists = np.concatenate(needs.lists, axis=1, dtype=np.int32) if needs.lists else None
        ends = np.cumsum([keys.shape[1] for keys in needs.lists], dtype=np.int32)
        marks = None
        if needs.marks is not None:
            marks = np.zeros((len(needs.marks), _padded(m)), np.float32)
            marks[:, :m] = needs.marks
        steps = None if needs.steps is None else np.ascontiguousarray(needs.steps, dtype=np.int32)
        places = None
        if needs.rows is not None:
            places = np.full(n, -1, np.int32)
            places[list(needs.rows)] = np.arange(len(needs.rows))
        return cls(cells, lists, ends, marks, steps, places)


@dataclass(frozen=True, eq=False)
class CompiledRule:
    """What happens to a product q kᵀ before the softmax, in the layout of the compiled code.

    softcap  0 for none
    bias     `[1 or h, 1 or n, m]` float32, keys one after the other; or None
    sink     `[h]` float32, or None
    """

    scale: float
    softcap: float
    bias: np.ndarray | None
    sink: np.ndarray | None

    def write(self, job: _Attention, heads: slice) -> None:
        """Say it in a job for these heads."""
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
    """A call as the compiled code takes it, and the memory for what it notes."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    span: Intervals
    gaps: Gaps | None
    rule: CompiledRule
    asked: AskedKeys
    needs: RowNeeds
    numbers: RowNumbers
    vectors: int

    def parts(self) -> Iterator[slice]:
        """Key heads, as many at a time as memory for packed keys allows; all of them where their mean is wanted."""
        g, m, d = self.k.shape
        at_once = g if self.needs.means else max(1, _PANEL_BYTES // (4 * d * _padded(m)))
        return (slice(start, min(start + at_once, g)) for start in range(0, g, at_once))

    def done(self, key_heads: slice) -> bool:
        """Walk these key heads with their query heads; False if their values are not finite."""
        share = self.q.shape[0] // self.k.shape[0]
        heads = slice(key_heads.start * share, key_heads.stop * share)
        k, v = self.k[key_heads], self.v[key_heads]
        (g, m, d), e, h, n = k.shape, v.shape[2], heads.stop - heads.start, self.q.shape[1]
        panels, locks = np.empty(g * _padded(m) * d, np.float32), np.zeros(h, np.int32)
        job = _Attention(h=h, g=g, n=n, m=m, d=d, e=e, offset=m - n)
        output = () if self.numbers.output is None else (("output", self.numbers.output[heads]),)
        for name, x in (("q", self.q[heads]), ("k", k), ("v", v), *output):
            setattr(job, name, x.ctypes.data)
            setattr(job, f"{name}_head", x.strides[0] // x.itemsize)
            setattr(job, f"{name}_row", x.strides[1] // x.itemsize)
        self._show_keys(job, heads.start)
        job.panels, job.locks = panels.ctypes.data, locks.ctypes.data
        job.task_rows = _MEAN_ROWS if self.needs.means else _TASK_ROWS
        self.rule.write(job, heads)
        self._ask(job, heads)
        cells = int(np.maximum(self.span.last - self.span.first, 0).sum(dtype=np.int64))
        return _run(job, self.vectors, h * cells * d)

    def _show_keys(self, job: _Attention, head: int) -> None:
        """Say in a job for heads from this one on which keys their rows may attend to."""
        job.first, job.last = self.span.first.ctypes.data, self.span.last.ctypes.data
        if self.gaps is not None:
            job.gap_head = len(self.span.first) if self.gaps.of_heads else 0
            job.gap_rows, job.gaps = self.gaps.rows[head * job.gap_head :].ctypes.data, self.gaps.keys.ctypes.data

    def _ask(self, job: _Attention, heads: slice) -> None:
        """Say in the job what is noted, and where."""
        arrays = (
            "list_sums",
            "mark_sums",
            "step_sums",
            "received",
            "received_few",
            "top_weights",
            "top_scores",
            "top_keys",
            "pooled",
        )
        for name in (*MOMENTS, *arrays):
            memory = getattr(self.numbers, name)
            if memory is not None:
                setattr(job, name, memory[heads].ctypes.data)
        job.count, job.few, job.means, asked = self.needs.top, self.needs.few, int(self.needs.means), self.asked
        job.noted = job.n if self.needs.rows is None else len(self.needs.rows)
        if asked.places is not None:
            job.places = asked.places.ctypes.data
        if asked.lists is not None:
            job.lists, job.list_columns = len(asked.list_ends), asked.lists.shape[1]
            job.list_keys, job.list_ends = asked.lists.ctypes.data, asked.list_ends.ctypes.data
        if asked.marks is not None:
            job.marks, job.mark_values = len(asked.marks), asked.marks.ctypes.data
        if asked.steps is not None:
            job.steps, job.step_edges = len(asked.steps) - 1, asked.steps.ctypes.data
        if asked.cells is not None and self.numbers.cells is not None:
            job.cells, job.cell_keys = asked.cells.shape[1], asked.cells.ctypes.data
            job.cell_weights = self.numbers.cells[heads].ctypes.data
        if self.needs.pool is not None:
            pool = self.needs.pool
            job.pool_rows, job.pool_keys, job.pool_sums = pool.rows, pool.keys, int(pool.sums)
            # No two threads write to a block.
            job.task_rows = job.n if asked.places is not None else -(-job.task_rows // pool.rows) * pool.rows


def _padded(m: int) -> int:
    return -(-m // _PANEL) * _PANEL


def _run(job: _Attention, vectors: int, size: int) -> bool:
    """Let this thread and the others do the tasks of a job; False if its values are not finite."""
    library = _library()
    assert library is not None
    work: Callable[[int, int], int] = library.attn_fused_work
    address, threads = ctypes.addressof(job), cores() if size >= _THREADED else 1
    team = _team() if threads > 1 else None
    if team is not None:
        codes = int(library.attn_fused_team(address, vectors, *team))
    else:
        helping = [_threads().submit(work, address, vectors) for _ in range(threads - 1)]
        codes = reduce(or_, (helper.result() for helper in helping), work(address, vectors))
    if codes & _NO_MEMORY:
        raise MemoryError
    return not codes


def _team() -> tuple[int, int] | None:
    """What starts a team of torch's threads, and how many they are; None where there is none."""
    openmp = None if _forked else _openmp()
    return None if openmp is None else (openmp, sys.modules["torch"].get_num_threads())


class TextSum(Protocol):
    """Numbers of rows to be added up, as in `attn_cli.kernel.walk.text_sums`, in float32 but for `least`."""

    x: np.ndarray
    factors: np.ndarray
    given: np.ndarray | None
    least: np.ndarray | None


def add_up_texts(wanted: Sequence[TextSum], sums: Sequence[np.ndarray]) -> None:
    """Fill the sums `[h, texts, c]` of each that is wanted, all of as many heads and texts."""
    library = _library()
    assert library is not None
    (h, texts, _), rows = sums[0].shape, wanted[0].x.shape[1]
    jobs = (_TextSum * len(sums))(*map(_text_sum, wanted, sums))
    whole = _TextSums(h=h, texts=texts, n=rows // texts, count=len(sums), wanted=ctypes.addressof(jobs))
    library.attn_text_sums(ctypes.addressof(whole), *(_team() or (None, 1)))


def _text_sum(wanted: TextSum, sums: np.ndarray) -> _TextSum:
    job = _TextSum(columns=sums.shape[2], x=wanted.x.ctypes.data, factors=wanted.factors.ctypes.data)
    job.x_head, job.x_row, job.x_column = (step // 4 for step in wanted.x.strides)
    job.factor_row, job.factor_column = (step // 4 for step in wanted.factors.strides)
    job.sums, job.sums_head, job.sums_text = sums.ctypes.data, sums.strides[0] // 8, sums.strides[1] // 8
    if wanted.given is not None and wanted.least is not None:
        job.given, job.least = wanted.given.ctypes.data, wanted.least.ctypes.data
    return job


def strongest_rows(
    weights: np.ndarray, bits: np.ndarray, least: np.ndarray, order: np.ndarray, most: int
) -> np.ndarray:
    """As `attn_cli.kernel.walk.strongest_rows`, of float32, uint32, float32 and int64, each contiguous."""
    library, (h, kinds), texts = _library(), least.shape, len(order)
    assert library is not None
    rows = np.full((h, kinds, most), -1, np.int64)
    job = _Strongest(h=h, texts=texts, n=weights.shape[1] // texts, kinds=kinds, most=most)
    for name, array in (("weights", weights), ("bits", bits), ("least", least), ("order", order), ("rows", rows)):
        setattr(job, name, array.ctypes.data)
    library.attn_strongest(ctypes.addressof(job), *(_team() or (None, 1)))
    return rows
