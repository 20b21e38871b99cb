"""Lines of a pipe or terminal, of which it is known whether the next one is there already."""

import os
import select
from collections import deque

_CHUNK = 2**16


class LineStream:
    """Reads a file descriptor by lines, like a binary file, and can say whether a line would have to be waited for."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.lines: deque[bytes] = deque()
        self.rest = bytearray()
        self.ended = False

    def readline(self, limit: int) -> bytes:
        """The next line with its end, b"" at the end; one of more than `limit` bytes may come in pieces."""
        while not self.lines and not self.ended and len(self.rest) < limit:
            self._read()
        if self.lines:
            return self.lines.popleft()
        line, self.rest = bytes(self.rest), bytearray()
        return line

    def has_line(self) -> bool:
        """True if a line, or the end of the stream, is there, so that `readline` doesn't wait."""
        while not self.lines and not self.ended:
            try:
                readable, _, _ = select.select([self.descriptor], [], [], 0)
            except (OSError, ValueError):  # Windows asks sockets alone
                return True
            if not readable:
                return False
            self._read()
        return True

    def _read(self) -> None:
        chunk = os.read(self.descriptor, _CHUNK)
        self.ended = not chunk
        first, end, others = chunk.partition(b"\n")
        self.rest += first + end
        if not end:
            return
        self.lines.append(bytes(self.rest))
        *whole, last = others.split(b"\n")
        self.lines.extend(line + b"\n" for line in whole)
        self.rest = bytearray(last)
