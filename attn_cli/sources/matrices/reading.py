"""The files that options name, in their own precision or in float64."""

import numpy as np

from attn_cli.sources.files.array_file import read_array
from attn_cli.sources.matrices.options import MatrixOptions


def read_matrix(options: MatrixOptions, name: str) -> np.ndarray | None:
    """The array of the file that the option `name` names; None where the option is not given."""
    file = getattr(options, name)
    if file is None:
        return None
    array = read_array(file, name=name, allow_nonfinite=options.allow_nonfinite)
    return array.astype(np.float64) if options.precise else array
