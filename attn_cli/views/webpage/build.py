"""A recording as one interactive page: the shell, and the heaviest keys of every row of the heads that find room."""

import hashlib
import re
from base64 import b64encode
from html import escape
from importlib.resources import files
from zlib import compress

import numpy as np
import orjson

from attn_cli.errors import LimitError
from attn_cli.recording import RecordedLayer, Recording
from attn_cli.views.webpage.contents import HEAVIEST, ROWS, WHOLE, Contents, title

BYTES = 8_000_000  # of a page
_STEPS = 1000  # of a weight of 1: three digits
_MOST_STEPS = 32767  # of the largest weight, where it is large
_LEVELS = 64  # of light on an image at least: of the largest weight of a row
_LEAST = 0.0005  # of a weight that is kept; a smaller one reads 0.000
_ALL, _FEW = 3, 40  # bytes that a cell takes in a head with all its keys, and a row in one with the heaviest
_AT_ONCE = 500_000  # bytes that stay as they are: read before the page is loaded, and printed


def page_html(recording: Recording, size: int = BYTES, screen: tuple[str, str] = ("", "")) -> bytes:
    """The interactive page of a recording in at most `size` bytes; `screen`: HTML and CSS for want of JavaScript."""
    shell, contents = _shell(recording, screen), Contents(recording)
    places = [(at, head) for at, layer in enumerate(recording.layers) for head in range(layer.h)]
    parts = [_packed(part, at_once=True) for part in (orjson.dumps(contents.document), bytes(contents.arrays))]
    room = size - len(shell) - sum(map(len, parts)) - len(places)
    if room < 0:
        needed = -(-(size - room) // 1000)
        words = f"a page of {size // 1000:,} kB has no room for this text: tokens and numbers alone make {needed:,} kB"
        raise LimitError(words, "choose fewer layers with -l")
    start = contents.document["start"]
    entropies = (layer.statistics.get("entropy_bits", np.full(layer.h, np.nan)) for layer in recording.layers)
    spread = [np.where(np.isfinite(entropy), entropy, np.inf) for entropy in entropies]
    order = sorted(places, key=lambda place: (place not in contents.named, spread[place[0]][place[1]]))
    heads = dict.fromkeys(places, b"")
    for number, (at, head) in enumerate(order, 1):
        layer, first = recording.layers[at], (at, head) == start[:2]
        spare = room - _ALL * layer.n * layer.m - (len(order) - number) * _FEW * layer.n
        whole = layer.m <= WHOLE or (contents.prompt.picture is not None and (first or spare > 0))
        data = packed_head(layer, head, whole=whole, row=start[2] if len(start) > 2 else 0, at_once=first)
        if len(data) > room:  # no other head is computed in vain
            break
        heads[at, head], room = data, room - len(data)
    return shell.replace(b"{{data}}", b"\n".join([*parts, *heads.values()]))


def packed_head(layer: RecordedLayer, head: int, *, whole: bool, row: int = -1, at_once: bool = False) -> bytes:
    """The kept cells of a head, row by row, by key, all of one `row`; b"" of a head that can't be computed."""
    # float32: steps to a weight of 1, row sums; uint32: keys; int16: steps; uint16: keys a row; all first bytes first
    if not layer.is_kept:
        return b""
    rows = [_kept(layer, head, range(at, min(at + ROWS, layer.n)), whole, row) for at in range(0, layer.n, ROWS)]
    sums, largest, counts, keys, weights = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    least, most = float(largest.min(where=largest > 0, initial=1.0)), float(largest.max(initial=1e-6))
    steps = min(max(_STEPS, _LEVELS / least), _MOST_STEPS / most)
    numbers = np.array([steps, *np.round(sums, 4)], "<f4"), keys.astype("<u4"), np.round(weights * steps).astype("<i2")
    planes = (part.view(np.uint8).reshape(len(part), -1).T.tobytes() for part in (*numbers, counts.astype("<u2")))
    return _packed(b"".join(planes), at_once=at_once)


def _kept(layer: RecordedLayer, head: int, rows: range, whole: bool, row: int) -> tuple[np.ndarray, ...]:
    """Of rows: sums of all weights, the largest, how many are kept, and the kept keys and weights in one sequence."""
    weights = layer.weights(head, slice(rows.start, rows.stop), slice(0, layer.m))
    size = np.abs(weights)
    largest = size.max(axis=1)
    kept = (size > 0) & (size >= np.minimum(_LEAST, largest[:, None] / _LEVELS))
    if not whole:
        among = np.zeros(size.shape, bool)
        np.put_along_axis(among, np.argpartition(size, -HEAVIEST, axis=1)[:, -HEAVIEST:], True, axis=1)
        kept &= among | (np.array(rows) == row)[:, None]
    return weights.sum(axis=1, dtype=np.float64), largest, kept.sum(axis=1), np.nonzero(kept)[1], weights[kept]


def _shell(recording: Recording, screen: tuple[str, str]) -> bytes:
    style, script, body = (_lines(f"page.{kind}") for kind in ("css", "js", "html"))
    screen_html, screen_style = screen
    policy = f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)} {_hash(screen_style)}"
    words = {
        "policy": f"{policy}; base-uri 'none'; form-action 'none'",
        "title": escape(f"{title(recording)} · attn"),
        "style": style,
        "screen_style": screen_style,
        "screen": screen_html,
        "script": script,
    }
    page = re.sub(r"\{\{(\w+)\}\}", lambda match: words.get(match[1], match[0]), body)
    return page.encode("utf-8", "backslashreplace")


def _lines(name: str) -> str:
    text = files("attn_cli.views.webpage").joinpath(name).read_text("utf-8")
    return "\n".join(line.strip() for line in text.splitlines() if not line.lstrip().startswith("//"))


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _packed(data: bytes, *, at_once: bool) -> bytes:
    if at_once and len(data) < _AT_ONCE:
        return b"=" + b64encode(data)
    return b64encode(compress(data))  # zlib's format: browsers call it "deflate"
