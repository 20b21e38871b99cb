"""Pixels as PNG, without a library."""

import struct
import zlib

import numpy as np

_COLOR_TYPES = {3: 2, 4: 6}  # truecolour, and truecolour with alpha (PNG specification, 11.2.2)


def png(pixels: np.ndarray) -> bytes:
    """Bytes `[n, m, 3]` of red, green and blue, or `[n, m, 4]` with opacity, as a PNG."""
    height, width, channels = pixels.shape
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, _COLOR_TYPES[channels], 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body
