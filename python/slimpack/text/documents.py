"""From inputs to documents, in two halves. The first reads inputs in order and cuts them into
batches of bytes; it runs in one process and knows where it is. The second finds the documents in a
batch; it runs in many processes and knows only the batch."""

import gzip
import itertools
import json
import zlib
from dataclasses import dataclass

from slimpack.text.errors import BadDocument, BadInput, cannot_read, reading, require_text, shown
from slimpack.text.inputs import BOM, GZIP, is_compressed

BATCH_BYTES = 1 << 20
BATCH_DOCUMENTS = 4096  # at most, of text files and of Parquet
MAX_DOCUMENT_BYTES = 1 << 30
PARQUET_ROWS = 256  # decoded at once
NEWLINE = b"\n"


@dataclass(frozen=True)
class Position:
    """Where reading goes on: in a text file always 0, in JSON lines the byte of the uncompressed
    file, in Parquet the row. `line` counts the lines before."""

    input: int = 0
    offset: int = 0
    line: int = 0


@dataclass(frozen=True)
class Batch:
    """Whole documents of one format."""

    format: str
    data: list  # text and Parquet: the bytes of each document, None for null; JSON lines: one blob
    names: list  # text: the file of each document; otherwise the one file
    first: int  # line or row of the first document, counted from 1
    end: Position  # of what follows
    read: int  # bytes of this input before `end`, as the file has them


def too_long(place):
    return BadDocument(f"{place}: longer than {MAX_DOCUMENT_BYTES:,} bytes, which is the limit of "
                       "a document; split it, or give the --format that the file has")


def read_text(inputs, start):
    """Batches of neighbouring text files from inputs[start.input] on."""
    data, names, size = [], [], 0
    at = start.input
    while at < len(inputs) and inputs[at].format == "text":
        if inputs[at].size > MAX_DOCUMENT_BYTES:
            raise too_long(f"'{shown(inputs[at].path)}'")
        # A batch ends before a file that would make it too long.
        if data and (size + inputs[at].size > BATCH_BYTES or len(data) == BATCH_DOCUMENTS):
            yield Batch("text", data, names, 1, Position(at), 0)
            data, names, size = [], [], 0
        with inputs[at].open() as file, reading(inputs[at].path, "input"):
            data.append(file.read().removeprefix(BOM))
        names.append(shown(inputs[at].path))
        size += inputs[at].size
        at += 1
    if data:
        yield Batch("text", data, names, 1, Position(at), 0)


def whole_lines(stream):
    """The stream in blobs of whole lines, each of about BATCH_BYTES."""
    while data := stream.read(BATCH_BYTES):
        if not data.endswith(b"\n"):
            data += stream.readline(MAX_DOCUMENT_BYTES)
        yield data


def longest_end(data):
    """Bytes of the last line, which alone may be longer than a batch."""
    return len(data) - data.rfind(b"\n", 0, len(data) - 1) - 1


def read_lines(source, start):
    """Batches of whole lines. A line may be longer than a batch."""
    name = shown(source.path)
    offset, line = start.offset, start.line
    with source.open() as file:
        is_gzip = is_compressed(source.path) or file.peek(len(GZIP)).startswith(GZIP)
        stream = gzip.GzipFile(fileobj=file) if is_gzip else file
        try:
            stream.seek(offset)
            for data in whole_lines(stream):
                if longest_end(data) > MAX_DOCUMENT_BYTES:
                    raise too_long(f"'{name}': line {line + data.count(NEWLINE, 0, -1) + 1}")
                first = line + 1
                offset += len(data)
                line += data.count(NEWLINE)
                yield Batch("jsonl", [data], [name], first, Position(start.input, offset, line),
                            file.tell())
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise BadDocument(f"'{name}': line {line + 1}: the compressed data is damaged "
                              f"({error}); copy or compress the file again") from error
        except OSError as error:
            raise cannot_read(source.path, "input", error) from error


def import_parquet():
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise BadInput(f"Parquet needs pyarrow ({error}); pip install slimpack[parquet]") from error
    return pyarrow


def check_column(pyarrow, name, schema, field):
    if field not in schema.names:
        raise BadDocument(f"'{name}' has no column '{field}', it has {listed(schema.names)}; "
                          "give --field")
    kind = schema.field(field).type
    if pyarrow.types.is_dictionary(kind):
        kind = kind.value_type
    text = (pyarrow.types.is_string, pyarrow.types.is_large_string, pyarrow.types.is_string_view)
    if not any(is_text(kind) for is_text in text):
        raise BadDocument(f"'{name}': column '{field}' is of type {kind}, text is of type string; "
                          "give --field")


def parquet_rows(pyarrow, file, field, first):
    """The text of each row from `first` on, as bytes; None for null."""
    groups = []
    for group in range(file.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        if groups or first < rows:
            groups.append(group)
        else:
            first -= rows
    if not groups:
        return
    rows = file.iter_batches(batch_size=PARQUET_ROWS, row_groups=groups, columns=[field])
    texts = (text for part in rows
             for text in part.column(0).cast(pyarrow.large_string())
             .cast(pyarrow.large_binary()).to_pylist())
    yield from itertools.islice(texts, first, None)


def read_parquet(source, start, field):
    pyarrow = import_parquet()
    name = shown(source.path)
    with source.open() as raw:
        try:
            file = pyarrow.parquet.ParquetFile(raw)
            check_column(pyarrow, name, file.schema_arrow, field)
            total, row = max(file.metadata.num_rows, 1), start.offset
            for data in grouped(parquet_rows(pyarrow, file, field, row)):
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
        if size >= BATCH_BYTES or len(data) == BATCH_DOCUMENTS:
            yield data
            data, size = [], 0
    if data:
        yield data


def read_batches(inputs, field, start=Position()):
    """Every batch from `start` on, in order. The same start gives the same batches."""
    at = start
    while at.input < len(inputs):
        source = inputs[at.input]
        if source.format == "text":
            for batch in read_text(inputs, at):
                at = batch.end
                yield batch
            continue
        if source.format == "jsonl":
            yield from read_lines(source, at)
        else:
            yield from read_parquet(source, at, field)
        at = Position(at.input + 1)


def listed(names):
    """A few names for a message."""
    few = ", ".join(f"'{name}'" for name in list(names)[:8])
    return few + (", …" if len(names) > 8 else "") if few else "none"


def decoded(data, place, line=None):
    """The text of UTF-8. With `line` the place is a file, and the line is counted from there."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        at = error.start
        if line is not None:
            place += f": line {line + data.count(NEWLINE, 0, at)}"
            at -= data.rfind(NEWLINE, 0, at) + 1
        raise BadDocument(f"{place}: byte 0x{data[error.start]:02x} at position {at} is no UTF-8; "
                          "convert the input to UTF-8 (iconv), or leave it out") from error


def lines_in(path, what):
    """(number, line) of all lines of a file that are not blank. Reads it whole, and decompresses gzip."""
    with reading(path, what):
        with open(path, "rb") as file:
            data = file.read()
    if is_compressed(str(path)) or data.startswith(GZIP):
        try:
            data = gzip.decompress(data)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise BadInput(f"'{shown(path)}': the compressed data is damaged ({error}); copy or compress the "
                           "file again") from error
    yield from lines_of(data)


def value_of(line, place, field):
    """The value of a field in a line of JSON."""
    try:
        value = json.loads(decoded(line, place))
    except (ValueError, RecursionError) as error:
        raise BadDocument(f"{place}: no JSON object ({error}); mend or remove the line") from error
    if not isinstance(value, dict):
        raise BadDocument(f"{place}: {shortened(value)} is no JSON object; each line holds one, "
                          f'such as {{"{field}": "…"}}')
    if field not in value:
        raise BadDocument(f"{place}: no field '{field}', the object has {listed(value)}; give "
                          "--field, or mend the line")
    return value[field]


def field_of(line, place, field):
    """The text in a line of JSON."""
    text = value_of(line, place, field)
    if not isinstance(text, str):
        raise BadDocument(f"{place}: field '{field}' is {shortened(text)}, no string; give "
                          "--field, or mend the line")
    return require_line(text, place, field)


def require_line(text, place, field):
    """The text of a field in a line, if it is one."""
    return require_text(f"{place}: field '{field}'", text, "mend or remove the line", BadDocument)


def lines_of(data, first=1):
    """(number, line) of all lines that are not blank. Files may be joined, so that each line may begin with
    the mark of UTF-8."""
    for number, line in enumerate(data.split(NEWLINE), first):
        line = line.removeprefix(BOM)
        if line.strip():
            yield number, line


def shortened(value, most=40):
    text = json.dumps(value)
    return text if len(text) <= most else text[:most] + "…"


def documents_of(batch, field):
    """(place, text) of every document. A place is what messages begin with."""
    if batch.format == "text":
        for name, data in zip(batch.names, batch.data):
            yield f"'{name}'", decoded(data, f"'{name}'", line=1)
    elif batch.format == "jsonl":
        for line, data in lines_of(batch.data[0], batch.first):
            place = f"'{batch.names[0]}': line {line}"
            yield place, field_of(data, place, field)
    else:
        for row, data in enumerate(batch.data, batch.first):
            place = f"'{batch.names[0]}': row {row}"
            if data is None:
                raise BadDocument(f"{place}: field '{field}' is null, no string; give --field, or "
                                  "remove the row")
            yield place, decoded(data, place)
