"""File names where texts are expected, and files that hold no text: what is meant, and the line that does it."""

import re
import sys
from pathlib import Path

from attn_cli.errors import InputError
from attn_cli.text import excerpt
from attn_cli.views.shell_words import command_words, quoted

_TEXTS = (".txt", ".md", ".text", ".jsonl", ".log", ".py", ".html", ".rst")
_ARRAYS = (".npz", ".npy", ".csv", ".tsv", ".safetensors")
_IMAGES = (".png", ".jpg", ".jpeg", ".webp", ".gif")
_SOUNDS = (".wav", ".flac", ".mp3", ".ogg")
_MODELS = (".gguf", ".vec")
_NAME = re.compile(r"\S+\.[A-Za-z]\w*")
_LONGEST = 255  # characters of a file's name
# What files begin with that hold no text, and what they then are.
_BEGINNINGS = (
    (b"PK\x03\x04", "arrays (.npz) or a zip archive", _ARRAYS[0]),
    (b"\x93NUMPY", "an array (.npy)", _ARRAYS[1]),
    (b"\x89PNG", "an image", _IMAGES[0]),
    (b"\xff\xd8\xff", "an image", _IMAGES[0]),
    (b"GIF8", "an image", _IMAGES[0]),
    (b"RIFF", "audio or an image", _SOUNDS[0]),
    (b"fLaC", "audio", _SOUNDS[0]),
    (b"OggS", "audio", _SOUNDS[0]),
    (b"GGUF", "a model", _MODELS[0]),
    (b"\x1f\x8b", "packed (gzip)", ""),
    (b"%PDF", "a PDF document", ""),
)


def note_on_name(text: str, option: str | None = None) -> list[str]:
    """A note on a text that looks like a file's name, or has the name of a file in it: that it is read as a text.

    option  the command's own option that reads a text from a file; None where it has none

    Raises InputError for a text that is the path of a file or folder and nothing else: the line that reads that is its
    hint. A word without a dot or slash is a path only where a model, a scan or a recording lies there.
    """
    name = text.strip()
    if not name or len(name) > _LONGEST or "\n" in name:
        return []
    path, suffix = Path(name), Path(name).suffix.lower()
    try:
        is_file, is_folder = path.expanduser().is_file(), path.expanduser().is_dir()
    except (OSError, ValueError, RuntimeError):
        return []
    if is_folder:
        what, line = _folder(path.expanduser(), text, name)
        if what or (text == name and "/" in name):
            raise InputError(f"{excerpt(name)} is {what or 'a folder'}, not a text", line)
        return []
    if is_file and text == name and ("." in name or "/" in name):
        kind = "a recording" if suffix == ".attn" else "a file"
        line = f"try: {_line(text, name, suffix, option)}    the name as a text: {quoted(f' {name}')}"
        raise InputError(f"{excerpt(name)} is {kind}, not a text", line)
    if is_file:
        return [f"{name!r} is a file, and is read as a text here; {_line(text, name, suffix, option)} reads the file"]
    known = bool(_NAME.fullmatch(name)) and suffix in (*_TEXTS, *_ARRAYS, *_IMAGES, *_SOUNDS, *_MODELS)
    return [f"{name!r} is read as a text; there is no file of this name"] if known else []


def _folder(folder: Path, text: str, name: str) -> tuple[str, str]:
    """The content of a folder named in place of a text, and the line that reads it; "" for anything else."""
    if (folder / "scan.json").is_file():
        return "the folder of a scan", f"try: {command_words(['scan', 'show', name])}"
    if (folder / "config.json").is_file():
        return "a model", f"try: {_with_model(text, name)}"
    return "", "a model's folder goes after -m; attn scan reads folders of texts"


def _with_model(text: str, name: str) -> str:
    """The command line with the word `text` as its model, and a text in its place where the command needs one."""
    words = sys.argv[1:] or ["inspect", text]
    at = words.index(text) if text in words else len(words)
    first = [] if words[0] == "layers" else ["a text"]
    return command_words([*words[:at], *first, "-m", name, *words[at + 1 :]])


def refuse_binary(file: str, beginning: bytes) -> None:
    """InputError for a file that holds no text, by its first bytes: what it holds, and the line that reads it."""
    for magic, kind, suffix in _BEGINNINGS:
        if beginning.startswith(magic):
            suffix = suffix if Path(file).suffix.lower() not in (*_ARRAYS, *_SOUNDS, *_IMAGES) else Path(file).suffix
            hint = f"try: {_line(file, file, suffix.lower(), None)}" if suffix else "give its text"
            raise InputError(f"{excerpt(file)} holds no text: it is {kind}", hint)
    if b"\0" in beginning and not beginning.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(
            f"{excerpt(file)} holds no text", "arrays: attn compute --q FILE or --inputs FILE with a model"
        )


def _line(text: str, name: str, suffix: str, option: str | None) -> str:
    """The command line that reads the file `name`, which stands on this command line as `text`."""
    words = sys.argv[1:]
    command = words[0] if words else "inspect"
    more = words[words.index(text) + 1 :] if text in words else []
    if suffix == ".attn":
        return command_words([command, "-m", name, *more])
    if suffix in _ARRAYS:
        return command_words(["compute", "--q", name, *(more if command == "compute" else [])])
    if suffix in _MODELS:
        return _with_model(text, name)
    if suffix in (*_IMAGES, *_SOUNDS):
        return command_words([command, "--image" if suffix in _IMAGES else "--audio", name, "-m", "MODEL"])
    if option is None or text not in words:
        return f'attn {command} "$(cat {quoted(name)})"'
    at = words.index(text)
    return command_words([*words[:at], option, name, *words[at + 1 :]])
