"""Names of files where texts are expected, and files that hold no text: which option reads them."""

from pathlib import Path

from attn_cli.errors import InputError
from attn_cli.text import excerpt
from attn_cli.views.shell_words import quoted

_READ_BY = {  # by suffix; others hold texts
    **dict.fromkeys((".attn", ".gguf", ".vec"), "-m"),
    **dict.fromkeys((".npz", ".npy", ".csv", ".tsv", ".safetensors"), "attn compute --q"),
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".webp", ".gif"), "--image"),
    **dict.fromkeys((".wav", ".flac", ".mp3", ".ogg"), "--audio"),
}
_LONGEST = 255  # characters of a file's name
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def refuse_path(text: str, option: str | None) -> None:
    """InputError for a text that is the path of a file or folder, with the option that reads it."""
    path = Path(text)
    if not text.strip() or len(text) > _LONGEST or "\n" in text:
        return
    try:
        is_file, is_folder = path.expanduser().is_file(), path.expanduser().is_dir()
        holds = {name for name in ("scan.json", "config.json") if (path.expanduser() / name).is_file()}
    except (OSError, ValueError, RuntimeError):
        return
    if is_file and ("." in text or "/" in text):
        own = f"{option} {quoted(text)}" if option else f'"$(cat {quoted(text)})"'
        reads = _READ_BY.get(path.suffix.lower())
        raise InputError(
            f"{excerpt(text)} is a file, not a text", f"what reads it: {f'{reads} {quoted(text)}' if reads else own}"
        )
    if is_folder and (holds or "/" in text):
        scan = f"attn scan show {quoted(text)}" if "scan.json" in holds else f"-m {quoted(text)}"
        raise InputError(f"{excerpt(text)} is a folder, not a text", f"what reads it: {scan}")


def refuse_binary(file: str, beginning: bytes) -> None:
    """InputError for a file that holds no text, by its first bytes."""
    if b"\0" in beginning and not beginning.startswith(_UTF16):
        reads = _READ_BY.get(Path(file).suffix.lower(), "attn compute --q")
        raise InputError(f"{excerpt(file)} holds no text", f"what reads it: {reads} {quoted(file)}")
