"""Output for ASCII-only screens: text is escaped before layout, attn's own marks are replaced after it."""

from dataclasses import replace

from attn_cli.prompt import Prompt, Token
from attn_cli.summaries.report import Report
from attn_cli.text import ascii_visible

_MARKS = str.maketrans(
    {
        "·": "|",
        "∙": ".",
        "•": "o",
        "←": "<",
        "…": "~",
        "␣": "_",
        "◦": ".",
        "█": "#",
        "×": "x",
        "−": "-",
        "ᵀ": "T",
        "─": "-",
        "│": "|",
        "░": ".",
        **dict(zip("▁▂▃▄▅▆▇", "1234567", strict=True)),
        "▼": "v",
        "◀": "<",
        "▶": ">",
    }
    | dict.fromkeys("┌┐└┘", "+")
)  # one character for one, so that the layout stays


def in_ascii(report: Report) -> Report:
    """The report with texts, tokens and model names in ASCII, other characters as their escapes."""
    prompts = tuple(_prompt(prompt) for prompt in report.prompts)
    summaries = tuple(
        replace(summary, queries=_tokens(summary.queries), keys=_tokens(summary.keys)) for summary in report.summaries
    )
    source = {**report.source, "model": ascii_visible(str(report.source["model"]))}
    return replace(report, source=source, prompts=prompts, summaries=summaries)


def marks_in_ascii(text: str) -> str:
    """`text` with the separators, ellipses and bars of a rendering replaced; whatever is left is escaped."""
    return text.translate(_MARKS).encode("ascii", "backslashreplace").decode()


def _tokens(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    return tuple(replace(token, text=ascii_visible(token.text)) for token in tokens)


def _prompt(prompt: Prompt) -> Prompt:
    files = {kind: ascii_visible(file) for kind, file in prompt.files.items()}
    text, generated = ascii_visible(prompt.text), prompt.generated
    if generated is not None:  # `start` is an offset into the unescaped text
        text = ascii_visible(prompt.text[: generated.start])
        generated = replace(generated, text=ascii_visible(generated.text), start=None)
    return replace(prompt, text=text, tokens=_tokens(prompt.tokens), files=files, generated=generated)
