"""The mask of a dataset gives documents their labels."""

import numpy as np
import pytest
import slimpack
import training_ranks
from labels_ranks import TRAINED, train_on_dataset, train_on_labels
from masks import write_mask, write_tokens
from ranks import run
from slimpack.text.index import write_index


@pytest.fixture(name="prefix")
def fixture_prefix(tmp_path):
    """A dataset of the documents TRAINED with their targets as a mask."""
    write_tokens(tmp_path / "set", [document.tokens for document in TRAINED])
    write_mask(tmp_path / "set", [document.labels != -100 for document in TRAINED])
    return tmp_path / "set"


def test_a_part_of_a_document_has_its_labels_but_for_the_first(prefix):
    dataset = slimpack.IndexedDataset.open(prefix)
    begin, end = 3, 40
    part, expected = dataset.read(2, begin, end), TRAINED[2][begin:end]
    assert part.tokens.tolist() == expected.tokens.tolist()
    assert part.labels.tolist() == [-100, *expected.labels[1:].tolist()]
    for begin, end in ((-1, 2), (3, 2), (0, len(TRAINED[2]) + 1)):
        with pytest.raises(IndexError, match=f"of document 2 of {len(TRAINED[2])}"):
            dataset.read(2, begin, end)


def test_a_run_on_a_dataset_with_a_mask_has_the_bits_of_one_on_its_labels(prefix, tmp_path):
    of_dataset = run(2, train_on_dataset, tmp_path / "dataset", prefix, 2, 3)
    of_labels = run(2, train_on_labels, tmp_path / "labels", 2, 3)
    for weights, of_other in zip(of_dataset, of_labels, strict=True):
        assert all(np.array_equal(weights[name], of_other[name]) for name in of_other)
    assert ([line["loss"] for line in training_ranks.lines(tmp_path / "dataset")]
            == [line["loss"] for line in training_ranks.lines(tmp_path / "labels")])


def test_the_writer_of_indices_writes_those_of_masks(prefix, tmp_path):
    with (tmp_path / "again.idx").open("wb") as file:
        write_index(file, np.dtype("u1"), np.array([len(document) for document in TRAINED]))
    assert (tmp_path / "again.idx").read_bytes() == prefix.with_name("set.mask.idx").read_bytes()


def test_a_mask_of_other_documents_is_refused(prefix):
    write_mask(prefix, [[1], [0]])
    with pytest.raises(slimpack.InvalidInput, match=f"2 documents, .* which are {len(TRAINED)};"):
        slimpack.IndexedDataset.open(prefix)
