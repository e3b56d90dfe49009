"""The batches of whole documents that pass between the two halves of reading, and where
reading goes on."""

from dataclasses import dataclass

BATCH_BYTES = 1 << 20
BATCH_DOCUMENTS = 4096  # at most, of text files and of Parquet


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
