"""An .npy file of the attention output, filled while the bands pass: the output is never in memory as a whole."""

import io

import numpy as np

from attn_cli.views.sink import Sink


class OutputRows:
    """Rows `[..., n, e]` of an .npy file, written in any order; whoever fills it has to write every row.

    Source: numpy.lib.format, version 1.0.
    """

    def __init__(self, sink: Sink, shape: tuple[int, ...], itemsize: int) -> None:
        self.sink = sink
        self.n, self.e = shape[-2:]
        self.dtype = np.dtype(f"<f{itemsize}")
        header = io.BytesIO()
        about = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(header, about)
        self.start = len(header.getvalue())
        sink.write(header.getvalue())

    def write(self, matrix: int, first: int, rows: np.ndarray) -> None:
        """Rows `[b, e]` from row `first` on of one of the matrices `[n, e]`, counted over all leading axes."""
        at = (matrix * self.n + first) * self.e * self.dtype.itemsize
        self.sink.write(np.ascontiguousarray(rows, self.dtype).tobytes(), self.start + at)
