"""From inputs to documents, in two halves. The first reads inputs in order and cuts them into
batches of bytes; it runs in one process and knows where it is. The second finds the documents in a
batch; it runs in many processes and knows only the batch."""

import gzip
import json
import zlib

from slimpack.text import batches
from slimpack.text.batches import Batch, Position
from slimpack.text.errors import (BadDocument, BadInput, cannot_read, listed, reading, require_text, shortened,
                                  shown)
from slimpack.text.inputs import BOM, GZIP, is_compressed
from slimpack.text.parquet import read_parquet

MAX_DOCUMENT_BYTES = 1 << 30
NEWLINE = b"\n"
# Told where a file of JSON is no file of lines.
SPREAD = "jq -c '.[]' FILE makes lines of a file that holds a list, jq -c . FILE of objects on several lines"


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
        if data and (size + inputs[at].size > batches.BATCH_BYTES or len(data) == batches.BATCH_DOCUMENTS):
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
    while data := stream.read(batches.BATCH_BYTES):
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


def read_batches(inputs, column, start=Position()):
    """Every batch from `start` on, in order. The same start gives the same batches. column: the TextColumn of
    Parquet, or what stands in its place."""
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
            yield from read_parquet(source, at, column)
        at = Position(at.input + 1)


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


def object_of(line, place, example):
    """The object in a line of JSON. example: one as it should be."""
    try:
        value = json.loads(decoded(line, place))
    except BadDocument:
        raise
    except (ValueError, RecursionError) as error:
        remedy = SPREAD if line.strip() in (b"[", b"{") else "mend or remove the line"
        raise BadDocument(f"{place}: no JSON object ({error}); {remedy}") from error
    if not isinstance(value, dict):
        more = f"; {SPREAD}" if isinstance(value, list) else ""
        raise BadDocument(f"{place}: {shortened(value)} is no JSON object; each line holds one, "
                          f"such as {example}{more}")
    return value


def value_of(line, place, field):
    """The value of a field in a line of JSON."""
    value = object_of(line, place, f'{{"{field}": "…"}}')
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


def records_of(batch):
    """(place, bytes) of every line of JSON or row of Parquet. A place is what messages begin with."""
    is_lines = batch.format == "jsonl"
    records = lines_of(batch.data[0], batch.first) if is_lines else enumerate(batch.data, batch.first)
    for number, data in records:
        yield f"'{batch.names[0]}': {'line' if is_lines else 'row'} {number}", data


def documents_of(batch, field):
    """(place, text) of every document. A place is what messages begin with."""
    if batch.format == "text":
        for name, data in zip(batch.names, batch.data):
            yield f"'{name}'", decoded(data, f"'{name}'", line=1)
        return
    for place, data in records_of(batch):
        if batch.format == "jsonl":
            yield place, field_of(data, place, field)
        elif data is None:
            raise BadDocument(f"{place}: field '{field}' is null, no string; give --field, or "
                              "remove the row")
        else:
            yield place, decoded(data, place)
