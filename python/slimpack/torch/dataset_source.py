"""Datasets of Hugging Face's library datasets as documents, without files in between."""

import warnings
from typing import NamedTuple

import numpy as np

from slimpack import InvalidInput
from slimpack.labelled import IGNORED, LabelledTokens
from slimpack.text.conversations import COMPLETION, MESSAGES, PROMPT, TOOLS
from slimpack.text.errors import listed
from slimpack.text.rows import ConversationRows, TextRows
from slimpack.torch.targets import MOST

IDS, LABELS, WEIGHTS, ATTENTION = "input_ids", "labels", "weights", "attention_mask"
MASKS = ("assistant_masks", "completion_mask")
_VERSION = 1  # of what datasets keeps in its cache


class DatasetSource(NamedTuple):
    """lengths: tokens of every document. read: read(document, begin, end) returns its LabelledTokens.
    StepSampler and SlimPackSampler take the first, PlannedSteps the second, Trainer's held_out both."""

    lengths: np.ndarray
    read: object


def from_dataset(dataset, tokenizer=None, *, column=None, loss_on="assistant", chat_template=None):
    """A DatasetSource of a datasets.Dataset: document i is its row i, or the i-th row with a target.

    dataset: has one of
        - `input_ids`, and where not all tokens are targets `labels` (-100 = none), `assistant_masks` or
          `completion_mask` (1 = a target; of several all must agree), and perhaps `weights`;
        - `messages`, or `prompt` and `completion`: conversations, whose tokens and targets are those of
          `slimpack data build --chat`. Rows without a target are left out with a warning;
        - `text`: each text has the tokens of `slimpack data build --tokenizer`.
    tokenizer: for messages and texts: a tokenizer of transformers, its folder or its tokenizer.json.
    column: another name for input_ids, messages or text.
    loss_on: what the loss counts of conversations: "assistant", "last" or "all" (docs/datasets.md).
    chat_template: a file with a template in place of the tokenizer's.

    All rows are encoded and measured once, in one process; datasets shows the progress and keeps the
    result beside the dataset's own files. Raises InvalidInput for what cannot be read, with its row.
    """
    rows = _map_style(dataset)
    column, kind = _column_of(rows, column)
    if kind is not IDS:
        rows, column = _encoded(rows, _encoder_of(tokenizer, column, kind, loss_on, chat_template)), IDS
    present = [name for name in (LABELS, *MASKS, WEIGHTS, ATTENTION) if name in rows.column_names]
    rows = rows.select_columns([column, *present])
    _require_lists(rows, column, present)
    return DatasetSource(_lengths_of(rows, column, present), _Reader(rows, column, present).read)


def _map_style(dataset):
    """The dataset with its rows as Arrow has them. Refuses what has no rows by number."""
    try:
        import datasets
    except ImportError as error:
        raise InvalidInput(f"from_dataset needs the library datasets ({error}); pip install datasets") from None
    if isinstance(dataset, (datasets.IterableDataset, datasets.IterableDatasetDict)):
        raise InvalidInput(f"the dataset is a streaming one ({type(dataset).__name__}), whose lengths are not known "
                           "ahead; load it without streaming=True")
    if isinstance(dataset, datasets.DatasetDict):
        raise InvalidInput(f"the dataset has the splits {listed(dataset)}; give one of them, such as "
                           f"dataset[{next(iter(dataset), 'train')!r}]")
    if not isinstance(dataset, datasets.Dataset):
        raise InvalidInput(f"the dataset is of type {type(dataset).__name__}; give a datasets.Dataset, or lengths "
                           "and a function read of your own")
    if dataset.format["type"] == "custom":
        raise InvalidInput("the dataset has a transform that runs when rows are read, and may change their lengths; "
                           "apply it with map()")
    if not len(dataset):
        raise InvalidInput("the dataset has no rows; give another one")
    return dataset.with_format("arrow")


def _column_of(rows, column):
    """(the column of token ids, messages or texts, which of these it has)."""
    names = rows.column_names
    if column is not None and column not in names:
        raise InvalidInput(f"the dataset has no column '{column}', it has {listed(names)}; name another one")
    if column is None and {PROMPT, COMPLETION} <= set(names) and not {IDS, MESSAGES} & set(names):
        return None, MESSAGES
    column = column or next((name for name in (IDS, MESSAGES, "text") if name in names), None)
    if column is None:
        raise InvalidInput(f"the dataset has none of the columns '{IDS}', '{MESSAGES}', 'text', and not both '{PROMPT}' "
                           f"and '{COMPLETION}', it has {listed(names)}; name one with column=")
    import pyarrow.types as types

    kind = rows.features.arrow_schema.field(column).type
    if types.is_string(kind) or types.is_large_string(kind):
        return column, "text"
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return column, MESSAGES if is_list and types.is_struct(kind.value_type) else IDS


def _encoder_of(tokenizer, column, kind, loss_on, chat_template):
    if tokenizer is None:
        raise InvalidInput(f"the dataset has {kind}{' of conversations' if kind is MESSAGES else ''} and no token ids; "
                           "give tokenizer=")
    if kind is MESSAGES:
        return ConversationRows(tokenizer, column, loss_on, chat_template)
    return TextRows(tokenizer, column)


def _encoded(rows, encoder):
    """The rows' tokens and masks, without those that have none."""
    def encode(table, numbers):
        found = list(encoder.encode([f"row {number}" for number in numbers], table.to_pylist()))
        return {name: [of_row[i] for of_row in found] for i, name in enumerate(encoder.columns)}

    read = [name for name in (*([encoder.column] if encoder.column else []), PROMPT, COMPLETION, TOOLS)
            if name in rows.column_names]
    made = _mapped(rows.select_columns(read), encode, "tokens", encoder.identity)
    found, left_out = encoder.found, len(rows) - len(made)
    if not len(made):
        raise InvalidInput(f"none of the dataset's {left_out} rows has a target; give another dataset, or another "
                           "loss_on")
    if left_out:
        warnings.warn(f"{left_out} of the dataset's {len(rows)} rows have no target and are left out", stacklevel=3)
    if found.lossy:
        warnings.warn(f"the tokenizer has no token for {found.lost_characters} characters, the first in "
                      f"{found.first_lossy}", stacklevel=3)
    return made.with_format("arrow")


def _mapped(rows, function, what, identity):
    """The result of a function of batches of rows, which datasets keeps for the same rows and identity."""
    from datasets.fingerprint import Hasher

    fingerprint = Hasher.hash([rows._fingerprint, "slimpack", _VERSION, what, *map(str, identity)])
    return rows.map(function, batched=True, with_indices=True, remove_columns=rows.column_names,
                    new_fingerprint=fingerprint, desc=what)


def _require_lists(rows, column, present):
    """Refuses columns of another type than lists of numbers."""
    import pyarrow.types as types

    for name in (column, *present):
        kind = rows.features.arrow_schema.field(name).type
        of = kind.value_type if hasattr(kind, "value_type") else None
        numbers = of is not None and (types.is_integer(of) or types.is_boolean(of) and name in (*MASKS, ATTENTION)
                                      or types.is_floating(of) and name == WEIGHTS)
        if not numbers:
            raise InvalidInput(f"the column '{name}' has the type {kind}, must be lists of numbers; tokenize it first, "
                               "or name another one with column=")


def _lengths_of(rows, column, present):
    """The tokens of every row, which is looked through for mistakes."""
    import pyarrow as pa

    def measure(table, numbers):
        lengths = _counts(table, column, numbers)
        for name in present:
            counts = _counts(table, name, numbers)
            for row in np.flatnonzero(counts != lengths)[:1]:
                raise InvalidInput(f"row {numbers[row]}: '{name}' has {counts[row]} entries, '{column}' has "
                                   f"{lengths[row]}; give one for each token")
            _require_entries(name, _values(table, name), lengths, numbers)
        return pa.table({"length": lengths})

    measured = _mapped(rows, measure, "lengths", [column, *present])
    return measured.with_format("numpy")["length"][:].astype(np.int64)


def _counts(table, name, numbers):
    """The entries of each row."""
    import pyarrow.compute as pc

    if table[name].null_count or pc.list_flatten(table[name]).null_count:
        has_null = [row is None or None in row for row in table[name].to_pylist()]
        raise InvalidInput(f"row {numbers[has_null.index(True)]}: '{name}' is null, or an entry of it is; leave "
                           "the row out, or give a number for each token")
    return pc.list_value_length(table[name]).to_numpy().astype(np.int64)


def _values(table, name):
    import pyarrow.compute as pc

    return pc.list_flatten(table[name]).to_numpy()


def _require_entries(name, values, lengths, numbers):
    """Refuses entries that say nothing about a token, by row and position."""
    rule = {WEIGHTS: (lambda v: (v >= 0) & (v <= MOST), f"from 0 to {MOST:.1e}; give 0 for what is no target"),
            ATTENTION: (lambda v: v == 1, "1 for every token; leave padding out"),
            LABELS: (lambda v: (v >= 0) | (v == IGNORED), f"a token id, or {IGNORED} for none")}
    fits, remedy = rule.get(name, (lambda v: (v == 0) | (v == 1), "0 or 1; give 1 for a target"))
    for at in np.flatnonzero(~fits(values))[:1]:
        ends = lengths.cumsum()
        row = int(np.searchsorted(ends, at, "right"))
        raise InvalidInput(f"row {numbers[row]}: '{name}' has {values[at]} at position "
                           f"{at - (ends[row] - lengths[row])}, must be {remedy}")


class _Reader:
    """Reads parts of rows."""

    def __init__(self, rows, column, present):
        self._rows, self._column, self._present = rows, column, set(present) - {ATTENTION}

    def read(self, document, begin, end):
        """LabelledTokens of a part of a document."""
        table = self._rows[int(document)]
        part = {name: _values(table, name)[begin:end] for name in (self._column, *self._present)}
        tokens = part[self._column].astype(np.int64)
        labels = part[LABELS].astype(np.int64) if LABELS in part else tokens
        for name in self._present.intersection(MASKS):
            labels = np.where(part[name] == 1, labels, IGNORED)
        weights = part[WEIGHTS].astype(np.float64) if WEIGHTS in part else None
        return LabelledTokens(tokens, labels, weights)
