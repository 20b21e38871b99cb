"""Progress of a run over layers; with --verbose its time and memory."""

import time
from typing import Any

from attn_cli.cli.kit.stderr.lines import print_notes
from attn_cli.cli.kit.stderr.status_line import StatusLine
from attn_cli.sources.memory import peak_memory
from attn_cli.text import decimal_bytes


class Progress:
    """Context manager that counts attention calls while a model runs, of `layers` a text, and shows the count."""

    def __init__(
        self,
        layers: int,
        texts: int,
        earlier_texts: int,
        *,
        quiet: bool,
        verbose: bool,
        noun: str = "layer",
    ) -> None:
        self.layers, self.texts = layers, texts
        text = f"text {earlier_texts + 1} · " if earlier_texts or texts > 1 else ""
        self.words = f"{text}{noun} {{}} of {layers}"
        self.line = StatusLine(self.words.format(1), layers * texts, quiet=quiet or layers <= 1)
        self.verbose = verbose and not quiet
        self.calls = 0

    def __enter__(self) -> "Progress":
        self.begun = time.monotonic()
        self.line.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> None:
        self.line.__exit__(kind, *error)
        if self.verbose and kind is None:
            peak = peak_memory()
            memory = f", peak memory {decimal_bytes(peak)}" if peak else ""
            print_notes([f"ran in {time.monotonic() - self.begun:.2f} s{memory}"], quiet=False)

    def go_on(self, noun: str, done: int, count: int) -> None:
        """Count things that come after the layers: `done` more of them, out of `count`, are done."""
        self.line.advance(done) if done else self.line.begin(f"{count} {noun}", count)

    def step(self) -> None:
        """Count one more layer of one text."""
        self.line.advance(1.0)
        self.calls += 1
        self.line.say(self.words.format(min(self.calls // self.texts + 1, self.layers)))
