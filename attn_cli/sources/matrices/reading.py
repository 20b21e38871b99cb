"""Reading the files that options name, in their own precision or in float64."""

from dataclasses import dataclass

import numpy as np

from attn_cli.sources.files.array_file import read_array
from attn_cli.sources.matrices.options import MatrixOptions


@dataclass(frozen=True)
class MatrixReader:
    """Reads matrices; with `allow_nonfinite` they may hold NaN and Inf, with `precise` they become float64."""

    allow_nonfinite: bool
    precise: bool

    def matrix(self, file: str, name: str) -> np.ndarray:
        """The array of a file, called `name` in messages. Raises InputError for a file without a usable array."""
        array = read_array(file, name=name, allow_nonfinite=self.allow_nonfinite)
        return array.astype(np.float64) if self.precise else array

    def optional(self, file: str | None, name: str) -> np.ndarray | None:
        """As `matrix`; None if `file` is None."""
        return None if file is None else self.matrix(file, name)


def reader_of(options: MatrixOptions) -> MatrixReader:
    """The reader of a problem's files."""
    return MatrixReader(options.allow_nonfinite, options.precise)
