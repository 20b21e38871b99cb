"""Names of tokens, heads and calls, and lines of keys that begin with such a name."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from rich.cells import cell_len
from rich.text import Text

from attn_cli.prompt import Token
from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.reducers.kinds.targets import Kind
from attn_cli.summaries.report import Report
from attn_cli.text import scale_words, visible
from attn_cli.views.drawing.bars import bar_line
from attn_cli.views.drawing.cells import DIM, fit
from attn_cli.views.drawing.palette import Ramp, background
from attn_cli.views.drawing.screen import Screen

_WEIGHT_COLUMNS = 14
_LOOKS = {  # letters and colours: heads that find content are warm, those of a place cold, of the first token quiet
    "induction": ("i", "#d55e00"),
    "duplicate": ("d", "#e69f00"),
    "previous": ("p", "#0072b2"),
    "next": ("n", "#56b4e9"),
    "self": ("s", "#009e73"),
    **{f"back{places}": (str(places), "#8cc5b0") for places in range(2, 9)},
    "first": ("·", "#f2f2f2"),
    "delimiter": (",", "#cccccc"),
    "window": ("w", "#f0e442"),
    "uniform": ("u", "#faf3b0"),
    "focused": ("f", "#cc79a7"),
}
# What a query does with its keys, by the measure that ranks them.
READS = {"weight": "attends to", "value": "reads from", "output": "gets its output from", "rollout": "is reached by"}


def which_heads(averaged: int, head: int | str, by: str = "weight") -> str:
    """The words for one head in a title, or for several: their mean, or all together."""
    if not averaged:
        return f"head {head}"
    mean = f"mean of {averaged} heads" + " in each layer so far" * (by == "rollout")
    return mean if by in ("weight", "rollout") else f"{averaged} heads together"


def head_name(summary: Summary, at: int) -> str:
    """The name of the head at index `at` of a layer's heads, by the numbers of layer and head: 18.6."""
    return f"{summary.place.layer}.{summary.place.heads[at]}"


def head_choice(stream: str, name: str) -> str:
    """A head, or some, as -H takes it: `18.6`; `cross:1.1` in a model of several stacks."""
    return name if stream == "self" else f"{stream}:{name}"


def token_label(token: Token) -> str:
    """A token with its number, as users name it: "3 bank"; "5 +Paris" for one that the model generated."""
    return f"{token.index} {visible(text_with_mark(token))}"


def text_with_mark(token: Token) -> str:
    """The token's text, with a plus before it if the model generated it; blanks alone are made visible."""
    text = token.text if token.text.strip(" ") or not token.text else "␣" * len(token.text)
    return f"+{text}" if token.generated else text


def named_keys(summary: Summary, keys: np.ndarray, weights: np.ndarray) -> list[tuple[Token, float]]:
    """The tokens of keys with their weights, from arrays `[k]`; places with key -1, which hold none, are left out."""
    return [
        (summary.keys[key], weight) for key, weight in zip(keys.tolist(), weights.tolist(), strict=True) if key >= 0
    ]


def key_cells(label: str, pairs: list[tuple[Token, float]], screen: Screen) -> Text:
    """`3 bank  river 0.62  the 0.20`: a label, then keys with their weights, as many as the line holds."""
    label_width = min(24, max(8, screen.width // 5))
    line = Text("  ").append(fit(label, label_width))
    room = screen.width - label_width - 3
    for key, weight in pairs:
        piece = f" {fit(token_label(key), 16).rstrip()} {weight:.2f} "
        if cell_len(piece) > room:
            break
        line.append(" ").append(piece, background(weight, Ramp(0.0, 1.0, light=screen.light), screen.depth))
        room -= cell_len(piece) + 1
    return line


def key_bar(token: Token, share: float, most: float, screen: Screen) -> Text:
    """`3 bank  0.620  ████`: a key with its weight, or another share of a row, and a bar that is full at `most`."""
    return bar_line(token_label(token), min(24, max(10, screen.width // 4)), share, screen, most)


def key_bars(pairs: list[tuple[Token, float]], weights: list[float] | None, screen: Screen) -> Iterator[Text]:
    """A bar for every key: `3 bank 0.620 ████`; with `weights` behind it `weight 0.903`, its weight."""
    narrower = replace(screen, width=screen.width - _WEIGHT_COLUMNS * (weights is not None))
    for at, (token, share) in enumerate(pairs):
        line = key_bar(token, share, 1.0, narrower)
        if weights is not None:
            line.pad_right(max(0, narrower.width - line.cell_len))
            line.append(f"  weight {weights[at]:.3f}", DIM)
        yield line


def stream_suffix(summary: Summary) -> str:
    """The end of a title that says which attention a layer has where that isn't self-attention: ` · cross`; else ""."""
    return "" if summary.place.stream == "self" else f" · {summary.place.stream}"


def place_prefix(summary: Summary, report: Report) -> str:
    """The beginning of a map's title: `layer 3 cross `; of the user's own matrices `batch 0,2 · `, or ""."""
    place = summary.place
    if report.batch is None:
        return f"layer {place.layer} {'' if place.stream == 'self' else place.stream + ' '}"
    if not report.batch:
        return ""
    return f"batch {','.join(str(int(at)) for at in np.unravel_index(place.text, report.batch))} · "


def rule_words(summary: Summary, *, scale: bool = True) -> str:
    """The rule in words: `÷ √64 = 8, causal, softcap 50`; without its scale on request."""
    rule = summary.rule
    if rule["scale"] is None:  # a rule that is known to the model's own code only
        return str(rule["mask"])
    if rule["scale"] == 0:
        return f"{'uniform' if rule['softmax'] else 'given'} weights, {rule['mask']}"
    words = [scale_words(rule["scale"])] * (scale and rule["scale"] != 1) + [str(rule["mask"])]
    if rule["softcap"] is not None:
        words.append(f"softcap {rule['softcap']:g}")
    words += [name for name in ("bias", "sink") if rule[name]]
    words += [] if rule["softmax"] else ["no softmax"]
    return ", ".join(words)


def look_of(perhaps: bool, kind: Kind) -> tuple[str, str]:
    """The letter and the colour of a kind of head in maps of heads; white where few rows tell."""
    letter, color = _LOOKS.get(kind.name, ("", "#ffffff"))
    return (f"{letter}?", "#ffffff") if perhaps else (letter, color)
