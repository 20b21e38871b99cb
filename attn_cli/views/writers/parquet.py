"""parquet: the flat rows of csv in columns with types, for data frames and databases."""

import io
import math
from itertools import islice
from typing import Any

from attn_cli.errors import optional
from attn_cli.summaries.report import Report
from attn_cli.views.sink import Sink
from attn_cli.views.view import View, ViewSettings
from attn_cli.views.writers import data

_ROWS = 2**16  # that are Python's at a time


class ParquetView(View):
    """Keeps the rows of all reports and writes a Parquet file at the end; LoadError without pyarrow."""

    def __init__(self, sink: Sink, format: str, settings: ViewSettings) -> None:
        super().__init__(sink, format, settings)
        self.arrow = optional("pyarrow", "scan", "a .parquet file needs", "parquet")
        self.tables: list[Any] = []

    def show(self, report: Report) -> None:
        """Keep the report's rows; NaN and infinities, such as masked scores, are null."""
        rows = data.records(report)
        while some := list(islice(rows, _ROWS)):
            columns = {name: [_value(row.get(name)) for row in some] for name in some[0]}
            arrays = {name: self.arrow.array(values, from_pandas=True) for name, values in columns.items()}
            self.tables.append(self.arrow.table(arrays))
        self.is_first = False

    def close(self) -> None:
        """Write the rows of all reports to the Parquet file."""
        file = io.BytesIO()
        table = self.arrow.table({})
        if self.tables:
            table = self.arrow.concat_tables(self.tables, promote_options="permissive")
            is_null, number = self.arrow.types.is_null, self.arrow.float64()
            fields = [field.with_type(number) if is_null(field.type) else field for field in table.schema]
            table = table.cast(self.arrow.schema(fields))
        self.arrow.parquet.write_table(table, file, compression="zstd")
        self.sink.write(file.getbuffer())


def _value(value: Any) -> Any:
    value = value.item() if hasattr(value, "item") else value
    return math.nan if isinstance(value, float) and not math.isfinite(value) else value
