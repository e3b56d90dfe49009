"""Documents of Parquet files: the rows of one column, or of what stands in its place (ConversationColumns)."""

import itertools
from dataclasses import dataclass

from slimpack.text import batches
from slimpack.text.batches import Batch, Position
from slimpack.text.errors import BadDocument, BadInput, listed, shown

PARQUET_ROWS = 256  # decoded at once


def import_parquet():
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise BadInput(f"Parquet needs pyarrow ({error}); pip install slimpack[parquet]") from error
    return pyarrow


@dataclass(frozen=True)
class TextColumn:
    """The column whose texts are documents."""

    field: str

    def names(self, name, schema):
        """The columns to read of a file. Raises BadDocument where it has none that fits."""
        pyarrow = import_parquet()
        if self.field not in schema.names:
            raise BadDocument(f"'{name}' has no column '{self.field}', it has {listed(schema.names)}; "
                              "give --field")
        kind = schema.field(self.field).type
        if pyarrow.types.is_dictionary(kind):
            kind = kind.value_type
        text = (pyarrow.types.is_string, pyarrow.types.is_large_string, pyarrow.types.is_string_view)
        if not any(is_text(kind) for is_text in text):
            raise BadDocument(f"'{name}': column '{self.field}' is of type {kind}, text is of type string; "
                              "give --field")
        return [self.field]

    def rows(self, part):
        """The bytes of each row of a pyarrow.RecordBatch; None for null."""
        pyarrow = import_parquet()
        return part.column(0).cast(pyarrow.large_string()).cast(pyarrow.large_binary()).to_pylist()


def rows_from(file, names, column, first):
    """The bytes of each row from `first` on."""
    groups = []
    for group in range(file.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        if groups or first < rows:
            groups.append(group)
        else:
            first -= rows
    if not groups:
        return
    parts = file.iter_batches(batch_size=PARQUET_ROWS, row_groups=groups, columns=names)
    yield from itertools.islice((row for part in parts for row in column.rows(part)), first, None)


def read_parquet(source, start, column):
    pyarrow = import_parquet()
    name = shown(source.path)
    with source.open() as raw:
        try:
            file = pyarrow.parquet.ParquetFile(raw)
            names = column.names(name, file.schema_arrow)
            total, row = max(file.metadata.num_rows, 1), start.offset
            for data in grouped(rows_from(file, names, column, row)):
                first = row + 1
                row += len(data)
                yield Batch("parquet", data, [name], first, Position(start.input, row),
                            source.size * row // total)
        except (pyarrow.ArrowException, OSError) as error:
            reason = " ".join(str(error).split())
            raise BadDocument(f"'{name}' cannot be read as Parquet: {reason}; copy the file again, "
                              "or give its --format") from error


def grouped(texts):
    """Lists of about BATCH_BYTES each."""
    data, size = [], 0
    for text in texts:
        data.append(text)
        size += len(text or b"")
        if size >= batches.BATCH_BYTES or len(data) == batches.BATCH_DOCUMENTS:
            yield data
            data, size = [], 0
    if data:
        yield data
