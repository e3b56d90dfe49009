"""PackedCollator: what transformers' collator gives, masks as TRL reads them, and refusals of other shapes."""

import numpy as np
import pytest
import slimpack
import torch
from generated import examples
from hypothesis import given
from hypothesis import strategies as st
from slimpack.torch import PackedCollator
from transformers import DataCollatorWithFlattening

CONVERSIONS = (list, np.array, torch.tensor)


def assert_same(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        assert torch.equal(ours[name], value) if torch.is_tensor(value) else ours[name] == value, name
        assert not torch.is_tensor(value) or ours[name].dtype == value.dtype


@given(st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=9), min_size=1, max_size=5), st.booleans(),
       st.sampled_from(CONVERSIONS))
@examples(100)
def test_it_gives_what_transformers_gives(tokens, with_labels, convert):
    documents = [{"input_ids": ids, **({"labels": [-100] + ids[1:]} if with_labels else {})} for ids in tokens]
    theirs = DataCollatorWithFlattening(return_flash_attn_kwargs=True, return_tensors="pt")(documents)
    ours = [{name: convert(values) for name, values in document.items()} for document in documents]
    assert_same(PackedCollator()(ours), theirs)
    assert [list(map(int, document["input_ids"])) for document in ours] == tokens  # left alone


@pytest.mark.parametrize("name", ["completion_mask", "assistant_masks"])
@pytest.mark.parametrize("convert", CONVERSIONS)
def test_tokens_without_completion_have_no_loss(name, convert):
    documents = [{"input_ids": [5, 6, 7, 8], name: convert([0, 0, 1, 1])}, {"input_ids": [9, 10]}]
    assert PackedCollator()(documents)["labels"].tolist() == [[-100, -100, 7, 8, -100, 10]]


def test_padding_is_left_out():
    batch = PackedCollator()([{"input_ids": [0, 5, 6], "attention_mask": [0, 1, 1], "completion_mask": [0, 0, 1]},
                              {"input_ids": [7, 8, 0], "attention_mask": [1, 1, 0], "labels": [7, 8, -100]}])
    assert batch["input_ids"].tolist() == [[5, 6, 7, 8]] and batch["labels"].tolist() == [[-100, 6, -100, 8]]
    assert batch["cu_seq_lens_q"].tolist() == [0, 2, 4] and batch["position_ids"].tolist() == [[0, 1, 0, 1]]


def test_no_documents_are_one_token_without_loss():
    batch = PackedCollator()([])
    assert batch["labels"].tolist() == [[-100]] and batch["input_ids"].shape == (1, 1)
    assert batch["cu_seq_lens_q"].tolist() == [0, 1] and batch["max_length_q"] == 1


@pytest.mark.parametrize(("document", "message"), [
    ({"input_ids": [1, 2, 3], "labels": [1, 2]}, r"labels has 2 entries, input_ids has 3; give one for"),
    ({"input_ids": [1, 2], "labels": 3}, r"labels has the shape \[\], must have 1 dimension"),
    ({"input_ids": [1, 2], "labels": None}, r"labels is None, must be a list"),
    ({"input_ids": torch.tensor([[1, 2]])}, r"input_ids has the shape \[1, 2\], must have 1 dimension; give each"),
    ({"input_ids": [[1], [2, 3]]}, r"input_ids is \[\[1\], \[2, 3\]\], must be a list of whole numbers"),
    ({"input_ids": 5}, r"input_ids has the shape \[\]"),
    ({"input_ids": ["a"]}, r"input_ids is \['a'\], must be a list of whole numbers"),
    ({"input_ids": [1.5, 2.5]}, r"input_ids is of type torch.float32, must be whole numbers"),
    ({"input_ids": []}, r"a document has no tokens; leave empty"),
    ({"input_ids": [1, 2], "attention_mask": [0, 0]}, r"a document has no tokens"),
    ({"input_ids": [1, 2], "attention_mask": [1]}, r"attention_mask has 1 entries, input_ids has 2"),
    ({"input_ids": [1, 2], "completion_mask": [[0, 1]]}, r"completion_mask has the shape \[1, 2\]"),
    ({"input_ids": [1, 2], "assistant_masks": [1, 0, 1]}, r"assistant_masks has 3 entries, input_ids has 2"),
    ({"text": "hello"}, r"has the entries text, must have input_ids; tokenize"),
])
def test_other_shapes_are_refused(document, message):
    with pytest.raises(slimpack.InvalidInput, match=message) as refused:
        PackedCollator()([{"input_ids": [4, 4]}, document])
    assert "\n" not in str(refused.value)
