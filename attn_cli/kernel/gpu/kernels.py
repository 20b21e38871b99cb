"""The Triton kernels of the walk on a GPU. Scores are computed in base 2: s * log2(e), so that exp is exp2.

Every kernel sees tiles of `ROWS` queries and `KEYS` keys of one query head; `share` query heads have one key head.
Numbers are float32; products of float32 are not rounded to TF32. The n picked rows are queries picked[i], which may
attend to keys first[i] .. last[i] - 1. `D` and `E` are d and e, padded to a power of 2. With SLOPED
-slopes[head] * |i + slope_offset - j| is added to scores. `logsumexp` `[h, n]` is of picked rows, in nats.

The forward sweep is that of FlashAttention 2 (Dao 2023, algorithm 1), with moments beside the sum of exponentials.
"""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)
NOTHING = tl.constexpr(-(2**63))  # in place of a packed score: smaller than any
NO_KEY = tl.constexpr(2**30)  # and the numbers above it: a place of a ranking that holds no key
MASKED = tl.constexpr(-1e30)  # as a score: its exponential is 0, and 0 times it is 0 and not NaN


@triton.jit
def _rows(x, head_stride, row_stride, head, places, count, width, WIDTH: tl.constexpr):
    columns = tl.arange(0, WIDTH)
    inside = ((places >= 0) & (places < count))[:, None] & (columns < width)[None, :]
    begin = x + head.to(tl.int64) * head_stride
    return tl.load(begin + places.to(tl.int64)[:, None] * row_stride + columns[None, :], mask=inside, other=0.0)


@triton.jit
def _ruled(
    scores, i, j, head, m, scale, softcap, slopes, slope_offset, bias, bias_head, bias_row, bias_key,
    CAPPED: tl.constexpr, SLOPED: tl.constexpr, BIASED: tl.constexpr,
):  # fmt: skip
    """Scaled, capped and biased scores in base 2 of queries i, -1 for none; `scores`, `i` and `j` broadcast."""
    if CAPPED:
        scores = softcap * (2 * tl.sigmoid(scores * (2 * scale / softcap)) - 1)  # softcap * tanh
        scale = 1.0
    if SLOPED:
        slope = tl.load(slopes + head)
        scores = scores * scale - slope * tl.abs(i + slope_offset - j).to(tl.float32)
        scale = 1.0
    if BIASED:
        cell = bias + head.to(tl.int64) * bias_head + i.to(tl.int64) * bias_row + j.to(tl.int64) * bias_key
        scores = scores * scale + tl.load(cell, mask=(i >= 0) & (j >= 0) & (j < m), other=0.0).to(tl.float32)
        scale = 1.0
    return scores * (scale * LOG2_E)


@triton.jit
def _tile(
    queries, keys, i, j, head, m, scale, softcap, slopes, slope_offset, bias, bias_head, bias_row, bias_key,
    CAPPED: tl.constexpr, SLOPED: tl.constexpr, BIASED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The scores of queries i `[i, D]` and keys j `[j, D]`, `[i, j]`, in base 2, nothing masked yet."""
    scores = tl.dot(queries, tl.trans(keys), input_precision=PRECISION)
    return _ruled(
        scores, i[:, None], j[None, :], head, m,
        scale, softcap, slopes, slope_offset, bias, bias_head, bias_row, bias_key,
        CAPPED, SLOPED, BIASED,
    )  # fmt: skip


@triton.jit
def _queries(q, q_head, q_row, head, picked, i, n, d, D: tl.constexpr):
    rows = tl.load(picked + i, mask=i < n, other=-1)
    return rows, _rows(q, q_head, q_row, head, rows, 2**30, d, D)


@triton.jit
def _bounds(first, last, i, n):
    inside = i < n
    return tl.load(first + i, mask=inside, other=2**30), tl.load(last + i, mask=inside, other=0)


@triton.jit
def forward(
    q, q_head, q_row, k, k_head, k_row, first, last, picked, share, n, m, d,
    scale, softcap, slopes, slope_offset, bias, bias_head, bias_row, bias_key,
    v, v_head, v_row, e, finite, sink, offset, output, output_head, output_row, numbers, number_field,
    ROWS: tl.constexpr, KEYS: tl.constexpr, D: tl.constexpr, E: tl.constexpr, CAPPED: tl.constexpr,
    SLOPED: tl.constexpr, BIASED: tl.constexpr, SINK: tl.constexpr, OUTPUT: tl.constexpr, MOMENTS: tl.constexpr,
    REPAIRS: tl.constexpr, PRECISION: tl.constexpr, OF_VALUES: tl.constexpr,
):  # fmt: skip
    """A Triton kernel: for some rows of one head the output `[h, n, e]` and five numbers of each row `[5, h, n]`."""
    block, head = tl.num_programs(0) - 1 - tl.program_id(0), tl.program_id(1)  # the longest rows of a causal mask first
    key_head = head // share
    i = block * ROWS + tl.arange(0, ROWS)
    low, high = _bounds(first, last, i, n)
    live = low < high
    begin = tl.min(tl.where(live, low, 2**30), axis=0) // KEYS * KEYS
    end = tl.max(tl.where(live, high, 0), axis=0)
    # Between them no key is masked for any of the rows.
    open_begin = (tl.max(tl.where(i < n, low, 0), axis=0) + KEYS - 1) // KEYS * KEYS
    open_end = tl.min(tl.where(i < n, high, 2**30), axis=0) // KEYS * KEYS
    row_numbers, queries = _queries(q, q_head, q_row, head, picked, i, n, d, D)
    places = (row_numbers + offset).to(tl.float32)
    inside = i < n
    if REPAIRS:
        is_needed = tl.load(finite) == 0
        inside = i < tl.where(is_needed, n, 0)
        end = tl.where(is_needed, end, begin)
        above = tl.zeros((ROWS, E), tl.float32)  # how many infinities a row may attend to
        below = tl.zeros((ROWS, E), tl.float32)
        undefined = tl.zeros((ROWS, E), tl.float32)
    largest = tl.full((ROWS,), MASKED, tl.float32)
    total = tl.zeros((ROWS,), tl.float32)  # of e = exp2(score - largest)
    moment = tl.zeros((ROWS,), tl.float32)  # of e * (score - largest)
    distance = tl.zeros((ROWS,), tl.float32)  # of e * |i - j|
    values = tl.zeros((ROWS, E), tl.float32)  # of e * v
    for start in range(begin, end, KEYS):
        j = start + tl.arange(0, KEYS)
        keys = _rows(k, k_head, k_row, key_head, j, m, d, D)
        scores = _tile(
            queries, keys, row_numbers, j, head, m, scale, softcap, slopes, slope_offset, bias, bias_head, bias_row,
            bias_key, CAPPED, SLOPED, BIASED, PRECISION,
        )  # fmt: skip
        if (start < open_begin) | (start >= open_end):
            scores = tl.where((j[None, :] >= low[:, None]) & (j[None, :] < high[:, None]), scores, MASKED)
        larger = tl.maximum(largest, tl.max(scores, axis=1))
        scores = scores - tl.where(larger == MASKED, 0.0, larger)[:, None]  # a row without a key keeps its zeros
        exponentials = tl.exp2(scores)
        step = largest - larger
        shrink = tl.exp2(step)
        if MOMENTS:
            moment = (moment + tl.where(total > 0, step, 0.0) * total) * shrink
            moment += tl.sum(exponentials * scores, axis=1)
            far = tl.abs(places[:, None] - j.to(tl.float32)[None, :])
            distance = distance * shrink + tl.sum(exponentials * far, axis=1)
        total = total * shrink + tl.sum(exponentials, axis=1)
        if OUTPUT:
            block_values = _rows(v, v_head, v_row, key_head, j, m, e, E)
            values = values * shrink[:, None]
            if REPAIRS:
                allowed = ((j[None, :] >= low[:, None]) & (j[None, :] < high[:, None])).to(tl.float16)
                numbers_of = block_values.to(tl.float32)
                above += tl.dot(allowed, (numbers_of == float("inf")).to(tl.float16))
                below += tl.dot(allowed, (numbers_of == float("-inf")).to(tl.float16))
                undefined += tl.dot(allowed, (numbers_of != numbers_of).to(tl.float16))
                block_values = tl.where(tl.abs(numbers_of) < float("inf"), block_values, 0.0).to(block_values.dtype)
            values += tl.dot(exponentials.to(block_values.dtype), block_values, input_precision=OF_VALUES)
        largest = larger
    whole = total
    if SINK:
        # Where a row has no key, or only lower scores than its sink's, the sink is the largest.
        sink_score = tl.load(sink + head).to(tl.float32) * LOG2_E
        larger = tl.maximum(largest, sink_score)
        shrink = tl.exp2(largest - larger)
        moment = (moment + tl.where(total > 0, largest - larger, 0.0) * total) * shrink
        total, distance, values = total * shrink, distance * shrink, values * shrink[:, None]
        whole = total + tl.exp2(sink_score - larger)
    else:
        larger = largest
    divisor = tl.where(whole == 0, 1.0, whole)
    if REPAIRS:
        values = tl.where(above > 0, float("inf"), tl.where(below > 0, float("-inf"), values))
        values = tl.where((undefined > 0) | ((above > 0) & (below > 0)), float("nan"), values)
    if OUTPUT:
        columns = tl.arange(0, E)
        cells = output + head.to(tl.int64) * output_head + i.to(tl.int64)[:, None] * output_row + columns[None, :]
        tl.store(cells, (values / divisor[:, None]).to(output.dtype.element_ty),
                 mask=inside[:, None] & (columns < e)[None, :])  # fmt: skip
    memory = numbers + head.to(tl.int64) * n + i
    logarithm = tl.log2(divisor)
    tl.store(memory, tl.where(largest == MASKED, float("-inf"), largest * LN_2), mask=inside)
    tl.store(memory + number_field, tl.where(whole == 0, float("-inf"), (larger + logarithm) * LN_2), mask=inside)
    if MOMENTS:
        mass = total / divisor
        tl.store(memory + 2 * number_field, mass, mask=inside)
        tl.store(memory + 3 * number_field, (mass * logarithm - moment / divisor) * LN_2, mask=inside)
        tl.store(memory + 4 * number_field, distance / divisor, mask=inside)


@triton.jit
def column_sums(
    q, q_head, q_row, k, k_head, k_row, first, last, picked, share, n, m, d,
    scale, softcap, slopes, slope_offset, bias, bias_head, bias_row, bias_key,
    logsumexp, begin_rows, end_rows, received,
    ROWS: tl.constexpr, KEYS: tl.constexpr, D: tl.constexpr, CAPPED: tl.constexpr, SLOPED: tl.constexpr,
    BIASED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A Triton kernel: for KEYS keys of one head the sum of all rows' weights on each, `received` `[h, m]`."""
    start, head = tl.program_id(0) * KEYS, tl.program_id(1)
    key_head = head // share
    j = start + tl.arange(0, KEYS)
    sums = tl.zeros((KEYS,), tl.float32)
    lost = tl.zeros((KEYS,), tl.float32)  # by rounding, so that many small weights add up (Kahan 1965)
    keys = _rows(k, k_head, k_row, key_head, j, m, d, D)
    begin, end = tl.load(begin_rows + tl.program_id(0)), tl.load(end_rows + tl.program_id(0))
    for row in range(begin // ROWS * ROWS, end, ROWS):
        i = row + tl.arange(0, ROWS)
        low, high = _bounds(first, last, i, n)
        row_numbers, queries = _queries(q, q_head, q_row, head, picked, i, n, d, D)
        scores = _tile(
            queries, keys, row_numbers, j, head, m, scale, softcap, slopes, slope_offset, bias, bias_head, bias_row,
            bias_key, CAPPED, SLOPED, BIASED, PRECISION,
        )  # fmt: skip
        allowed = (j[None, :] >= low[:, None]) & (j[None, :] < high[:, None])
        sum_of_row = tl.load(logsumexp + head.to(tl.int64) * n + i, mask=i < n, other=0.0) * LOG2_E
        added = tl.sum(tl.exp2(tl.where(allowed, scores - sum_of_row[:, None], MASKED)), axis=0) - lost
        more = sums + added
        lost = (more - sums) - added
        sums = more
    tl.store(received + head.to(tl.int64) * m + j, sums, mask=j < m)


@triton.jit
def blocks(
    q, q_head, q_row, k, k_head, k_row, first, last, picked, share, n, m, d,
    scale, softcap, slopes, slope_offset, bias, bias_head, bias_row, bias_key,
    logsumexp, pooled, pool_rows, pool_keys, key_blocks,
    ROWS: tl.constexpr, KEYS: tl.constexpr, D: tl.constexpr, CAPPED: tl.constexpr, SLOPED: tl.constexpr,
    BIASED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A Triton kernel: a block's largest weight, in `pooled` `[h, row blocks, key blocks]`."""
    block, head = tl.program_id(0), tl.program_id(1)
    row_block, key_block = block // key_blocks, block % key_blocks
    key_head = head // share
    row_end = tl.minimum(n, (row_block + 1) * pool_rows)
    key_end = tl.minimum(m, (key_block + 1) * pool_keys)
    fold = tl.zeros((ROWS,), tl.float32)
    for row in range(row_block * pool_rows, row_end, ROWS):
        i = row + tl.arange(0, ROWS)
        low, high = _bounds(first, last, i, n)
        row_numbers, queries = _queries(q, q_head, q_row, head, picked, i, n, d, D)
        sum_of_row = tl.load(logsumexp + head.to(tl.int64) * n + i, mask=i < n, other=0.0) * LOG2_E
        high = tl.where(i < row_end, tl.minimum(high, key_end), 0)
        for start in range(key_block * pool_keys, key_end, KEYS):
            if tl.max(high, axis=0) > start:
                j = start + tl.arange(0, KEYS)
                keys = _rows(k, k_head, k_row, key_head, j, m, d, D)
                scores = _tile(
                    queries, keys, row_numbers, j, head, m, scale, softcap, slopes, slope_offset, bias, bias_head,
                    bias_row, bias_key, CAPPED, SLOPED, BIASED, PRECISION,
                )  # fmt: skip
                allowed = (j[None, :] >= low[:, None]) & (j[None, :] < high[:, None])
                weights = tl.exp2(tl.where(allowed, scores - sum_of_row[:, None], MASKED))
                fold = tl.maximum(fold, tl.max(weights, axis=1))
    result = tl.max(fold, axis=0)
    tl.store(pooled + head.to(tl.int64) * tl.num_programs(0) + block, result)


@triton.jit
def cell_weights(
    q, q_head, q_row, k, k_head, k_row, first, last, picked, share, n, m, d,
    scale, softcap, slopes, slope_offset, bias, bias_head, bias_row, bias_key,
    logsumexp, cell_keys, weights, cells,
    ROWS: tl.constexpr, D: tl.constexpr, CAPPED: tl.constexpr, SLOPED: tl.constexpr, BIASED: tl.constexpr,
):  # fmt: skip
    """A Triton kernel: `weights` of ROWS queries of one head on `cell_keys`, `[n, cells]`; 0 for -1 and masked keys."""
    i, head, cell = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.program_id(1), tl.program_id(2)
    key_head = head // share
    low, high = _bounds(first, last, i, n)
    j = tl.load(cell_keys + i.to(tl.int64) * cells + cell, mask=i < n, other=-1)
    row_numbers, queries = _queries(q, q_head, q_row, head, picked, i, n, d, D)
    keys = _rows(k, k_head, k_row, key_head, j, m, d, D).to(tl.float32)
    scores = _ruled(
        tl.sum(queries.to(tl.float32) * keys, axis=1), row_numbers, j, head, m,
        scale, softcap, slopes, slope_offset, bias, bias_head, bias_row, bias_key,
        CAPPED, SLOPED, BIASED,
    )  # fmt: skip
    sum_of_row = tl.load(logsumexp + head.to(tl.int64) * n + i, mask=i < n, other=0.0) * LOG2_E
    found = (j >= low) & (j < high)
    weight = tl.exp2(tl.where(found, scores - sum_of_row, MASKED))
    tl.store(weights + (head.to(tl.int64) * n + i) * cells + cell, weight, mask=i < n)


@triton.jit
def largest_keys(
    q, q_head, q_row, k, k_head, k_row, first, last, picked, share, n, m, d,
    scale, softcap, slopes, slope_offset, bias, bias_head, bias_row, bias_key,
    top,
    ROWS: tl.constexpr, KEYS: tl.constexpr, D: tl.constexpr, COUNT: tl.constexpr, CAPPED: tl.constexpr,
    SLOPED: tl.constexpr, BIASED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A Triton kernel: the COUNT keys of largest score of each of ROWS queries of one head, `top` `[h, n, COUNT]`."""
    block, head = tl.num_programs(0) - 1 - tl.program_id(0), tl.program_id(1)
    key_head = head // share
    i = block * ROWS + tl.arange(0, ROWS)
    low, high = _bounds(first, last, i, n)
    live = low < high
    begin = tl.min(tl.where(live, low, 2**30), axis=0) // KEYS * KEYS
    end = tl.max(tl.where(live, high, 0), axis=0)
    row_numbers, queries = _queries(q, q_head, q_row, head, picked, i, n, d, D)
    slots = tl.arange(0, COUNT)
    best = tl.full((ROWS, COUNT), float("-inf"), tl.float32)
    best_keys = tl.zeros((ROWS, COUNT), tl.int32) + slots[None, :] + NO_KEY
    for start in range(begin, end, KEYS):
        j = start + tl.arange(0, KEYS)
        keys = _rows(k, k_head, k_row, key_head, j, m, d, D)
        scores = _tile(
            queries, keys, row_numbers, j, head, m, scale, softcap, slopes, slope_offset, bias, bias_head, bias_row,
            bias_key, CAPPED, SLOPED, BIASED, PRECISION,
        )  # fmt: skip
        scores = tl.where((j[None, :] >= low[:, None]) & (j[None, :] < high[:, None]), scores, float("-inf"))
        largest = tl.max(scores, axis=1)
        least = tl.min(best, axis=1)
        # A later key of an equal score doesn't push out an earlier one: the largest score of each row at a time enters.
        while tl.max((largest > least).to(tl.int32), axis=0) > 0:
            key = tl.min(tl.where(scores == largest[:, None], j[None, :], NO_KEY), axis=1)
            last_of_least = tl.max(tl.where(best == least[:, None], best_keys, -1), axis=1)
            leaves = (largest > least)[:, None] & (best_keys == last_of_least[:, None])
            best = tl.where(leaves, largest[:, None], best)
            best_keys = tl.where(leaves, key[:, None], best_keys)
            scores = tl.where(j[None, :] == key[:, None], float("-inf"), scores)
            largest = tl.max(scores, axis=1)
            least = tl.min(best, axis=1)
    bits = (best + 0.0).to(tl.int32, bitcast=True)  # + 0.0: there is one zero
    ordered = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.int64)
    packed = tl.where(best_keys < NO_KEY, (ordered << 32) | (0x7FFFFFFF - best_keys).to(tl.int64), NOTHING)
    cells = top + (head.to(tl.int64) * n + i)[:, None] * COUNT + slots[None, :]
    tl.store(cells, tl.topk(packed, COUNT), mask=(i < n)[:, None])
