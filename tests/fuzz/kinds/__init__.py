"""The kinds of cases by name: each is a function that is handed a folder for what all its cases share."""

from collections.abc import Callable
from pathlib import Path

from tests.fuzz.kinds.arrays import arrays
from tests.fuzz.kinds.case import Make
from tests.fuzz.kinds.documents import messages
from tests.fuzz.kinds.recordings import recording
from tests.fuzz.kinds.scans import scan, scan_show


def _model(shared: Path) -> Make:
    from tests.fuzz.kinds.models import model  # here: it loads torch

    return model(shared)


KINDS: dict[str, Callable[[Path], Make]] = {
    "scan": scan, "scan-show": scan_show, "recording": recording, "messages": messages,
    "arrays": arrays, "model": _model,
}  # fmt: skip
