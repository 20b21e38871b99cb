"""The syntax of --layer and --head: numbers and ranges, 18.6 for head 6 of layer 18, cross:1.1 in cross attention."""

import re

from attn_cli.errors import InputError
from attn_cli.selection import Selection
from attn_cli.text import excerpt

Pair = tuple[int, int]


_STREAM = re.compile(r"\s*([A-Za-z_][\w.]*)(?:\s*:\s*|\s+)(?=\S)")


def selection_of(layers: str | None, heads: str | None) -> Selection:
    """The layers and heads that the texts of --layer (`4-7`) and --head (`0,2`, `18.6`) choose; all for None."""
    streams: dict[str, None] = {}

    def bare(text: str) -> str:
        parts = text.split(",")
        streams.update((match[1], None) for part in parts if (match := _STREAM.match(part)))
        return ",".join(_STREAM.sub("", part, count=1) for part in parts)

    layers, heads = (bare("all" if text is None else text) for text in (layers, heads))
    if len(streams) > 1:
        raise InputError(f"{' and '.join(streams)} at once", "choose layers and heads of one of them")
    stream = next(iter(streams), None)
    if "." not in heads:
        return Selection(numbers(layers, "layer"), numbers(heads, "head"), stream=stream)
    pairs = head_pairs(heads, "--head")
    if numbers(layers, "layer") is not None:
        first = heads.split(",")[0].strip()
        hint = f"{first} names its layer already: leave out --layer"
        raise InputError(f"--layer {layers} and --head {heads} at once", hint)
    return Selection(pairs=pairs, stream=stream)


def head_pairs(text: str, option: str) -> tuple[Pair, ...]:
    """The (layer, head) of every head in `18.6`, `17.3,18.6`, `-1.0` or `17.0-3`, in order; InputError for others."""
    unique: dict[Pair, None] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(-?\d{1,5})\.(-?\d{1,5})(?:-(\d{1,5}))?\s*", part)
        if match is None or (match[3] and int(match[2]) > int(match[3])):
            line = f"{option} {excerpt(text, 60)!r} is not a choice of heads: {_what_is_wrong(part)}"
            raise InputError(line, "examples: 18.6   17.3,18.6   17.0-3   -1.0")
        layer, first = int(match[1]), int(match[2])
        unique |= dict.fromkeys((layer, head) for head in range(first, int(match[3] or first) + 1))
    return tuple(unique)


def _what_is_wrong(part: str) -> str:
    if re.fullmatch(r"\s*-?\d+(-\d+)?\s*", part):
        return f"{part.strip()} names no layer"
    return f"{excerpt(part.strip(), 60)!r} is not LAYER.HEAD"


def numbers(text: str, noun: str) -> tuple[int, ...] | None:
    """The numbers in `3`, `-1`, `0,2` or `4-7`, in order, without repeats; None for `all`, InputError for others."""
    if text.strip().lower() == "all":
        return None
    unique: dict[int, None] = {}  # a set that keeps its order
    for part in text.split(","):
        match = re.fullmatch(r"\s*(-?\d{1,5})(?:-(\d{1,5}))?\s*", part)
        if match is None or (match[2] and int(match[1]) > int(match[2])):
            is_long = re.search(r"\d{6}", part)
            hint = f"numbers of {noun}s have 5 digits at most" if is_long else "examples: 3   -1   0,2   4-7   all"
            raise InputError(f"--{noun} {excerpt(text, 60)!r} is not a choice of {noun}s", hint)
        first = int(match[1])
        unique |= dict.fromkeys(range(first, int(match[2]) + 1) if match[2] else (first,))
    return tuple(unique)
