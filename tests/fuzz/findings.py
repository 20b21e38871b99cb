"""What counts as a finding: everything that a person can't be told about a spoilt file."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from tests.fuzz.forked import Outcome
from tests.fuzz.kinds.case import Case

_MOST_MEMORY = 2 * 2**30
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9]")
_UNSAFE = re.compile(rb"allow_pickle\s*=\s*True|weights_only\s*=\s*False", re.IGNORECASE)
_ANSWERS = (0, 1, 2, 3, 4, 5)


def finding(case: Case, done: Outcome, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> str | None:
    """What is wrong with the answer, in a line that is the same for the same fault; None where nothing is.

    before, after  the case's files
    """
    lines = [line for line in done.errors.splitlines() if line.strip()]
    said = next((line for line in lines if line.startswith("attn: ")), lines[-1] if lines else "")
    kept = {name: content for name, content in before.items() if name in case.kept}
    for wrong, what in (
        (done.code < 0, f"ended by signal {-done.code}"),
        (done.code not in _ANSWERS, f"exit {done.code}: {said}"),
        (done.memory > _MOST_MEMORY, f"{done.memory / 2**30:.0f} GB"),
        (done.code > 1 and not lines, f"exit {done.code} without a word"),
        (any(not line.startswith(("attn: ", "      ")) for line in lines), f"a line of another's: {lines[:1]}"),
        (done.code > 1 and sum(line.startswith("attn: ") for line in lines) > 2, f"more than two lines: {said}"),
        (_CONTROL.search(done.out if not case.as_json else b""), "control bytes on stdout"),
        (_CONTROL.search(done.errors.encode()), "control bytes on stderr"),
        (_UNSAFE.search(done.out + done.errors.encode()), "advice to unpickle"),
        ("out of memory" in said, f"a size in a file is believed: {said}"),
        (done.code == 0 and case.as_json and not _is_strict(done.out), "its JSON is not strict"),
        (done.code > 1 and any(after.get(name) != content for name, content in kept.items()), "files were overwritten"),
    ):
        if wrong:
            return re.sub(r"\d+", "N", what)[:200]
    return None


def _is_strict(out: bytes) -> bool:
    def refuse(token: str) -> None:
        raise ValueError(token)

    try:
        json.loads(out, parse_constant=refuse)
    except ValueError:
        return False
    return True


def files_of(folder: Path) -> dict[str, bytes]:
    """The files below a folder, by their paths in it."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
