"""A hash of a corpus, by which a later reading is known to be of the same documents."""

import hashlib
from pathlib import Path

from attn_cli.errors import InputError, reason
from attn_cli.text import excerpt

_PIECE = 2**18
_PIECES = 64  # of a large file, at equal distances; a file of up to 16 MiB is read whole


def content_hash(path: Path) -> str:
    """A hash of a file's size and content: of all of it up to 16 MiB, of 64 pieces of 256 KiB of a larger one."""
    digest = hashlib.blake2b(digest_size=16)
    try:
        size = path.stat().st_size
        digest.update(size.to_bytes(8, "little"))
        with path.open("rb") as file:
            if size <= _PIECES * _PIECE:
                digest.update(file.read())
            else:
                for piece in range(_PIECES):
                    file.seek(piece * (size - _PIECE) // (_PIECES - 1))
                    digest.update(file.read(_PIECE))
    except OSError as error:
        raise InputError(
            f"can't read {excerpt(str(path))}: {reason(error)}", "check the name and its permissions"
        ) from None
    return digest.hexdigest()
