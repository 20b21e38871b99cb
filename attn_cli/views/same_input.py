"""The words of a command on the input of another, to be pasted; None where a pipe's text can't be given again."""

from attn_cli.summaries.reduce import Summary
from attn_cli.summaries.report import Report
from attn_cli.views.drawing.labels import head_choice, head_name
from attn_cli.views.invocation import Invocation, on_texts

MODEL = {"model", "device", "dtype", "trust_remote_code"}
_HIDDEN = {"words", "hide"}
_BESIDE = {"pair", "generate", "chat", "arg"}
_FILES = {"file", "image", "audio"}  # each may be read without a text
_KEPT = {"inspect": _HIDDEN, "heads": _HIDDEN, **dict.fromkeys(("matrix", "top"), _HIDDEN | {"by"})}
_OUTPUT = {"format", "json", "output", "force", "quiet"}
_OF_MATRICES = {"steps", "decode", "token"}
_FEW_ROWS = 6  # a walk through more rows fills many screens


def on_same_input(name: str, report: Report, invocation: Invocation, *more: str) -> list[str] | None:
    """The words of the command `name` on the same input and model, followed by `more`, such as "-H", "18.6"."""
    text, files = _text(report, invocation), [str(invocation.value(name)) for name in _FILES]
    if text is None or any(file == "-" or file.startswith(("/dev/", "/proc/")) for file in files):
        return None
    return on_texts(name, text, [*invocation.words(_FILES | _BESIDE | MODEL | _KEPT.get(name, set())), *more])


def matrix_of_head(summary: Summary, at: int, report: Report, invocation: Invocation) -> list[str] | None:
    """The words of `attn matrix` for one head on the same input; None where that came through a pipe."""
    return on_same_input("matrix", report, invocation, "-H", head_choice(summary.place.stream, head_name(summary, at)))


def more_of_matrices(report: Report, invocation: Invocation, *more: str) -> list[str] | None:
    """The words of `attn compute --steps` on the user's own matrices, then `*more`; None for a batch of them."""
    words = invocation.words_without(_OUTPUT | _OF_MATRICES | ({"head"} if "-H" in more else set()))
    if report.batch != () or "-" in words or not report.summaries:
        return None
    if "-t" not in more and len(report.summaries[0].queries) > _FEW_ROWS:
        more = (*more, "-t", "0")
    return ["compute", *words, "--steps", *more]


def _text(report: Report, invocation: Invocation) -> list[str] | None:
    """The text as an argument: as it was given, or as it came from standard input; [] where there is none."""
    given = invocation.value("text")
    if given not in (None, "-"):
        return [given or ""]
    if given is None and any(invocation.has(name) for name in _FILES):
        return []
    prompt = report.prompts[0] if report.prompts else None
    if prompt is None or invocation.has("chat"):
        return None
    written = None if prompt.generated is None else prompt.generated.start
    text = prompt.text[:written].rstrip("\n")
    return [text] if text else []  # a recording of audio or an image has none
