"""npy: the attention output alone; a file is filled while the bands pass, so that the output is never held whole."""

import io

import numpy as np

from attn_cli.summaries.report import Report
from attn_cli.views import data
from attn_cli.views.sink import Sink
from attn_cli.views.view import View


class OutputRows:
    """Rows `[..., n, e]` of an .npy file, written in any order; all must be. Source: numpy.lib.format, version 1.0."""

    def __init__(self, sink: Sink, shape: tuple[int, ...], itemsize: int) -> None:
        self.sink = sink
        self.n, self.e = shape[-2:]
        self.dtype = np.dtype(f"<f{itemsize}")
        header = io.BytesIO()
        fields = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(header, fields)
        self.start = len(header.getvalue())
        sink.write(header.getvalue())

    def write(self, matrix: int, first: int, rows: np.ndarray) -> None:
        """Write b rows `[b, e]`, from row `first` on, of matrix `[n, e]` number `matrix`, counted over leading axes."""
        place = (matrix * self.n + first) * self.e * self.dtype.itemsize
        self.sink.write(np.ascontiguousarray(rows, self.dtype).tobytes(), self.start + place)


class OutputView(View):
    """Writes the attention output of one report as an .npy file; into a file, its rows as they are computed."""

    filled = False

    def rows(self, shape: tuple[int, ...], itemsize: int) -> OutputRows | None:
        """An `OutputRows` for an output of this shape, of floats of `itemsize` bytes, filled as rows are computed."""
        self.filled = self.sink.whole is not None
        return OutputRows(self.sink, shape, itemsize) if self.filled else None

    def show(self, report: Report) -> None:
        """Write the report's output, unless `rows` has written it."""
        if not self.filled:
            self.sink.write(data.to_npy(report))
