"""Structure in errors: rounding has none, whatever its size. And the places of wrong numbers, in words."""

from collections.abc import Iterator, Mapping

import numpy as np

_SPREAD = 4.0  # groups of errors of rounding are as large as each other, within so many times
_SURE = 6.0  # standard errors that the mean of a coefficient is from 0 if errors follow a direction
_LEAST_SHARE = 0.1  # of the squares of errors that a direction explains: rounded keys, read by many rows, explain some
_FEWEST = 32  # numbers in a group
_BLOCKS = 8  # that rows and columns are cut into
_PERIODS = (8, 16, 32, 64, 128)  # rows of a tile


def structure(errors: np.ndarray, rounding: np.ndarray, directions: Mapping[str, np.ndarray]) -> str:
    """How errors of an output differ from those of rounding, as a phrase; "" if they don't.

    rounding    the errors of the same numbers as rounding makes them `[h, n, e]`
    directions  by words for another cause, arrays `[h, n, e]` that errors of that cause would be multiples of
    """
    sizes = np.sqrt(np.mean(rounding**2, axis=-1, keepdims=True))  # [h, n, 1]
    known = sizes > 1e-3 * np.sqrt(np.mean(rounding**2))
    scaled = np.where(known, errors / np.where(known, sizes, 1.0), 0.0)
    for words, groups in _groups(scaled.shape):
        found = _unequal(scaled, np.broadcast_to(known, scaled.shape), groups)
        if found is not None:
            low, high, times = found
            more = f"{times:.0f}" if times < 1000 else "over 1000"
            return f"those of {words.format(high)} are {more} times those of {words.format(low)}"
    explained = [(_LEAST_SHARE, "")]
    for words, direction in directions.items():
        coefficients, share = _along(errors, direction, sizes)
        mean, spread = coefficients.mean(), coefficients.std() / np.sqrt(max(len(coefficients), 1))
        if abs(mean) > _SURE * spread:
            explained.append((share, words))
    return max(explained)[1]


def _groups(shape: tuple[int, ...]) -> Iterator[tuple[str, list[tuple[str, np.ndarray]]]]:
    """Ways to cut `[h, n, e]` into groups: heads, blocks of rows, of columns, rows at one place of a tile."""
    h, n, e = shape
    head, row, column = np.ogrid[:h, :n, :e]
    if h > 1:
        yield "head {}", [(str(at), head == at) for at in range(h)]
    for noun, places, count in (("rows", row, n), ("columns", column, e)):
        starts = np.linspace(0, count, min(_BLOCKS, count) + 1).astype(int)
        cuts = zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
        yield f"{noun} {{}}", [(f"{first}-{last - 1}", (places >= first) & (places < last)) for first, last in cuts]
    for period in (each for each in _PERIODS if n >= 4 * each):
        yield f"row {{}} of every {period}", [(str(at), row % period == at) for at in range(period)]


def _unequal(
    scaled: np.ndarray, known: np.ndarray, groups: list[tuple[str, np.ndarray]]
) -> tuple[str, str, float] | None:
    sizes = []
    for name, group in groups:
        inside = np.broadcast_to(group, scaled.shape) & known
        if inside.sum() >= _FEWEST:
            sizes.append((float(np.sqrt(np.mean(scaled[inside] ** 2))), name))
    if len(sizes) < 2:
        return None
    (low, first), (high, last) = min(sizes), max(sizes)
    return (first, last, min(high / max(low, 1e-300), 1e6)) if high > _SPREAD * low else None


def _along(errors: np.ndarray, direction: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, float]:
    """The projection of each row's errors on a direction, in typical rows; the share of variance that it explains."""
    safe = np.where(sizes > 0, sizes, 1.0)
    e, d = errors / safe, direction / safe
    products, squares = (e * d).sum(axis=-1).ravel(), (d**2).sum(axis=-1).ravel()
    typical = np.sqrt(squares.mean()) if squares.size else 0.0
    if typical == 0:
        return np.zeros(1), 0.0
    total = float((e**2).sum())
    share = float(products.sum() ** 2 / max(squares.sum() * total, 1e-300))
    return products / typical, share


def places(bad: np.ndarray) -> str:
    """The rows, heads and columns of wrong numbers in words; `bad` `[h, n, e]` is True there, at least once."""
    h, n, e = bad.shape
    by_row = np.asarray(bad.any(axis=-1))  # [h, n]
    heads = np.flatnonzero(by_row.any(axis=-1)).tolist()
    of = "of every head" if len(heads) == h > 1 else "of " + _named("head", heads) if h > 1 else ""
    columns = np.flatnonzero(bad.any(axis=(0, 1))).tolist()
    only = f", in {_named('column', columns)} alone" if len(columns) < e else ""
    same = bool((by_row[heads] == by_row[heads[0]]).all())
    if not same:
        share = by_row[heads].mean()
        return f"{share:.0%} of the rows {of} are wrong{only}, not the same in each".replace("  ", " ")
    rows = np.flatnonzero(by_row[heads[0]]).tolist()
    return " ".join(f"{_rows(rows, n, of)}{only}".split())


def _rows(rows: list[int], n: int, of: str) -> str:
    first, last = rows[0], rows[-1]
    whole = len(rows) == last - first + 1
    if len(rows) == n:
        return f"every row {of} is wrong"
    if whole and last == n - 1 and first > 0:
        right = "row 0" if first == 1 else f"rows 0-{first - 1}"
        verb = "is" if first == 1 else "are"
        return f"{right} {of} {verb} right, from row {first} on they are wrong"
    if whole and first == 0 < last:
        return f"rows 0-{last} {of} are wrong, from row {last + 1} on they are right"
    for period in _PERIODS:
        folded = sorted({row % period for row in rows})
        if len(folded) == 1 and n >= 2 * period and len(rows) == len(range(folded[0], n, period)):
            return f"row {folded[0]} of every {period} rows {of} is wrong"
    named = _named("row", rows)
    return f"{named} {of} {'is' if len(rows) == 1 else 'are'} wrong"


def _named(noun: str, numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"{noun} {numbers[0]}"
    cuts = [at for at in range(1, len(numbers)) if numbers[at] != numbers[at - 1] + 1]
    runs = [numbers[a:b] for a, b in zip([0, *cuts], [*cuts, len(numbers)], strict=True)]
    if len(runs) > 4:
        return f"{len(numbers)} {noun}s"
    texts = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return f"{noun}s " + (", ".join(texts[:-1]) + " and " if len(texts) > 1 else "") + texts[-1]
