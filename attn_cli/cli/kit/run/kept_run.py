"""The run of a model on a text, kept as a recording: a second look and each next command take no model."""

import json
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from pathlib import Path

from attn_cli._version import __version__
from attn_cli.cli.kit.options.model import opened
from attn_cli.cli.kit.options.text_command import ReadOptions, TextCommandOptions
from attn_cli.cli.kit.run.kept_places import kept_folder
from attn_cli.errors import LoadError, reason
from attn_cli.kept.folder import KeptFolder
from attn_cli.kept.model_files import file_state, library_state
from attn_cli.recording import Recording
from attn_cli.recording.file import chunks
from attn_cli.sources import Reading, is_model
from attn_cli.sources.adapter_files import state_of_all
from attn_cli.sources.recordings import KeptSource

MOST_BYTES = 64 * 10**6  # of a run that is kept: of its queries and keys, and of the file


@dataclass(frozen=True)
class KeptRun:
    """The recording of a model's run on one text, on disk, from which later commands answer without the model."""

    folder: KeptFolder
    names: tuple[str, ...]

    def source(self, *, exact: bool = False) -> KeptSource | None:
        """The stored run as a source of attention; None where it isn't stored."""
        for name in self.names[-1:] if exact else self.names:
            path = self.folder.find(name)
            if path is not None:
                try:
                    return KeptSource(Recording.load(path), _when(path))
                except (LoadError, OSError):
                    self.folder.remove(name)
        return None

    def keep(self, recording: Recording) -> str:
        """Store a recording of up to 64 MB, with the sentences on its answer that an older file of the run holds.

        Returns a note where it isn't stored, and where it is the first one that is.
        """
        operands = [x for layer in recording.layers for x in (layer.q, layer.k, layer.seen) if x is not None]
        if sum(x.nbytes for x in operands) > MOST_BYTES:
            return ""
        older = self.source(exact=True)
        if older is not None and older.recording.told:
            told = {**older.recording.told, **(recording.told or {})}
            recording = Recording(recording.about, recording.prompt, recording.layers, told)
        is_first = not self.folder.path.exists()
        try:
            content = list(chunks(recording))
            whole = all(layer.q is not None or layer.seen is not None for layer in recording.layers)
            if whole and sum(map(len, content)) <= min(MOST_BYTES, self.folder.most):
                self.folder.write(self.names[-1], content)
                if is_first:
                    return f"runs are kept for a second look, in {self.folder.path}; ATTN_CACHE=off keeps none"
        except (OSError, LoadError) as error:
            words = reason(error) if isinstance(error, OSError) else error.message
            return f"the run is not kept: {words}; ATTN_CACHE=off keeps none"
        return ""


def kept_run(options: TextCommandOptions | ReadOptions, reading: Reading) -> KeptRun | None:
    """Where the run that these options ask for is stored, or will be, so that a later command needs no model."""
    texts = reading.get("known_texts") or []
    runs = is_model(options.model) and opened.get() is None
    if not runs or options.lines or options.inputs is not None or (len(texts) != 1 and not options.without_text):
        return None
    file = options.file or ""
    reads_stdin = not options.without_text and (options.text or options.file) in (None, "-")
    folder = kept_folder(piped=reads_stdin or file.startswith(("/dev/", "/proc/")))
    model = None if folder is None else state_of_all(options.model, options.adapter or ())
    media = [[file_state(file) for file in files] for files in (options.image or (), options.audio or ())]
    if folder is None or model is None:
        return None
    asked = [
        __version__, library_state(), model, options.dtype, options.device,
        options.trust_remote_code, list(texts), options.pair, reading.get("generate"),
        reading.get("chat"), reading.get("target_lang"), media, reading.get("inputs"),
    ]  # fmt: skip
    whole = _name(asked)
    chosen = tuple(None if each == "all" else each for each in (options.layer, options.head))
    return KeptRun(folder, (whole,) if chosen == (None, None) else (whole, _name([asked, chosen])))


def _name(asked: object) -> str:
    return f"{blake2b(json.dumps(asked, default=str).encode(), digest_size=16).hexdigest()}.attn"


def _when(path: Path) -> str:
    made = datetime.fromtimestamp(path.stat().st_mtime)
    return f"{made:%H:%M}" if made.date() == datetime.now().date() else f"{made:%Y-%m-%d %H:%M}"
