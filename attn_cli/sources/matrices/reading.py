"""Reading the matrices that options name, in the precision that was asked for."""

from dataclasses import dataclass

import numpy as np

from attn_cli.sources.files import read_array
from attn_cli.sources.matrices.options import MatrixOptions


@dataclass(frozen=True)
class MatrixReader:
    """Reads files: NaN and Inf as they are with `allow_nonfinite`, in float64 with `precise`."""

    allow_nonfinite: bool
    precise: bool

    def matrix(self, file: str, name: str) -> np.ndarray:
        """The array of a file, called `name` in messages. Raises InputError for what is none."""
        array = read_array(file, name=name, allow_nonfinite=self.allow_nonfinite)
        return array.astype(np.float64) if self.precise else array

    def optional(self, file: str | None, name: str) -> np.ndarray | None:
        """The same, None where no file is named."""
        return None if file is None else self.matrix(file, name)


def reader_of(options: MatrixOptions) -> MatrixReader:
    """The reader of a problem's files."""
    return MatrixReader(options.allow_nonfinite, options.precise)
