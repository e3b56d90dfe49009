"""Micro-batches for verl: what its callers do with index lists, a cap that holds, ranks that
agree."""

import itertools

import numpy as np
import pytest
import slimpack
import torch
from generated import examples
from hypothesis import given
from hypothesis import strategies as st
from ranks import run
from slimpack.export import verl
from torch import distributed

LENGTHS = np.minimum(np.random.default_rng(5).lognormal(6, 1.0, 200).astype(np.int64) + 1, 4096)


def restore(outputs, indices):
    """Puts the outputs of the micro-batches, in turn, back in the order of the batch, as verl's
    callers do."""
    flat = list(itertools.chain.from_iterable(indices))
    assert len(flat) == outputs.shape[0]
    inverse = [0] * len(flat)
    for place, index in enumerate(flat):
        inverse[index] = place
    return outputs[torch.tensor(inverse)]


@given(st.lists(st.integers(1, 100), min_size=1, max_size=80), st.integers(100, 300),
       st.integers(1, 3), st.booleans())
@examples(200)
def test_outputs_come_back_in_order_and_the_cap_holds(lengths, cap, multiple, balance):
    lengths = lengths * multiple  # enough sequences for a multiple
    indices, restored = verl.rearrange_micro_batches(
        lengths, cap, num_batches_divided_by=multiple, use_dynamic_bsz_balance=balance)
    lengths = torch.tensor(lengths)
    assert all(of_one and of_one == sorted(of_one) for of_one in indices)
    assert all(int(lengths[of_one].sum()) <= cap for of_one in indices)
    assert len(indices) % multiple == 0
    outputs = torch.cat([lengths[of_one] for of_one in indices])
    assert torch.equal(restore(outputs, indices), lengths)
    assert torch.equal(outputs[restored], lengths)


def test_the_numbers_of_micro_batches_are_those_asked_for():
    def count(**options):
        return len(verl.rearrange_micro_batches(LENGTHS, 8192, **options)[0])

    fewest = -(-int(LENGTHS.sum()) // 8192)
    assert count() in (fewest, fewest + 1)
    assert count(min_num_micro_batch=30) == 30
    assert count(min_num_micro_batch=30, num_batches_divided_by=4) == 32


def test_light_micro_batches_come_first_and_last():
    def work(indices):
        return [float((24576.0 * LENGTHS[i] + LENGTHS[i] ** 2.0).sum()) for i in indices]

    of_each = work(verl.rearrange_micro_batches(LENGTHS, 8192)[0])
    heaviest = int(np.argmax(of_each))
    assert of_each[:heaviest + 1] == sorted(of_each[:heaviest + 1])
    assert of_each[heaviest:] == sorted(of_each[heaviest:], reverse=True)
    assert max(of_each) <= 1.02 * np.mean(of_each)


def test_groups_stay_together():
    indices, _ = verl.rearrange_micro_batches(LENGTHS, 16384, force_group_size=4)
    for of_one in indices:
        assert [i // 4 for i in of_one[::4]] == [i // 4 for i in of_one[3::4]]
        assert of_one == [first + k for first in of_one[::4] for k in range(4)]
    assert sorted(itertools.chain(*indices)) == list(range(200))


@pytest.mark.parametrize(("lengths", "options", "message"), [
    ([5, 11], {}, r"sequence 1 has 11 tokens, max_token_len is 10; split"),
    ([5, 6], {"force_group_size": 2}, r"group 0 has 11 tokens, max_token_len is 10"),
    ([5, 0], {}, r"has no tokens"),
    ([1, 1, 1], {"force_group_size": 2}, r"3 sequences are no whole groups of force_group"),
    ([1, 1], {"min_num_micro_batch": 3}, r"rank 0 has too few sequences for 3 or more"),
    ([1, 1, 1], {"num_batches_divided_by": 0}, r"num_batches_divided_by is 0"),
])
def test_bad_input_is_refused(lengths, options, message):
    with pytest.raises(slimpack.InvalidInput, match=message):
        verl.rearrange_micro_batches(lengths, 10, **options)


def indices_of(cases):
    """By case the micro-batches of this rank, or why there are none."""
    found = []
    for of_rank in cases:
        lengths = of_rank[distributed.get_rank()]
        try:
            indices, _ = verl.rearrange_micro_batches(lengths, 100, distributed.group.WORLD)
            found.append(indices)
        except slimpack.InvalidInput as error:
            found.append(str(error))
    return found


def test_ranks_agree_on_the_number_of_micro_batches():
    cases = [([60] * 5, [10] * 8),  # 5 micro-batches each, although the second rank needs 1
             ([60] * 5, [10] * 4)]  # the second rank has no 5
    agreed, refused = zip(*run(2, indices_of, cases), strict=True)
    for indices, count in zip(agreed, [5, 8], strict=True):
        assert len(indices) == 5 and sorted(itertools.chain(*indices)) == list(range(count))
    assert all("rank 1 has too few sequences for 5 or more" in error for error in refused)
