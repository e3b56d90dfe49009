"""SlimPackSampler and PackedCollator: every document once, a strict cap, equal work, exact resumption."""

import itertools

import numpy as np
import pytest
import slimpack
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from slimpack.torch import PackedCollator, SlimPackSampler

LENGTHS = np.minimum(np.random.default_rng(3).lognormal(6, 1.2, 500).astype(np.int64) + 1, 4096)


def sampler(**changes):
    arguments = {"lengths": LENGTHS, "max_tokens": 4096, "ranks": 4, "rank": 0, "step_tokens": 40_000}
    return SlimPackSampler(**{**arguments, **changes})


def epoch_documents(sampler):
    """Those of a whole epoch over all ranks, step by step."""
    return [np.concatenate(list(itertools.chain(*step.of_rank))) for step in sampler.steps()]


@given(st.lists(st.integers(1, 100), min_size=1, max_size=120), st.integers(1, 5), st.integers(100, 300),
       st.one_of(st.integers(1, 2000), st.none()), st.integers(1, 3), st.booleans())
@settings(max_examples=200, deadline=None)
def test_every_document_once_under_the_cap(lengths, ranks, cap, step_tokens, micro_batches, shuffle):
    s = SlimPackSampler(lengths, cap, ranks=ranks, rank=0, step_tokens=step_tokens, shuffle=shuffle,
                        micro_batches=None if step_tokens else micro_batches)
    seen = []
    for step in s.steps():
        counts = {len(of_rank) for of_rank in step.of_rank}
        assert len(step.of_rank) == ranks and len(counts) == 1
        for batch in itertools.chain(*step.of_rank):
            assert len(batch) > 0 and s.lengths[batch].sum() <= cap
        together = np.concatenate(list(itertools.chain(*step.of_rank)))
        assert sorted(together) == sorted(step.documents)
        seen += step.documents.tolist()
    # In the epoch's order, all but the few that begin the next epoch.
    assert seen == s.order(0)[:len(seen)].tolist() and len(lengths) - len(seen) < ranks


def test_the_next_epoch_begins_with_what_is_left():
    s = SlimPackSampler([1] * 10, 1, ranks=4, rank=0, micro_batches=1, shuffle=False)
    first = [b for r in range(1) for b in s]
    assert first == [[0], [4]] and s.epoch == 1
    assert s.state_dict()["pending"] == [8, 9]
    assert next(iter(s)) == [8]  # with 9, 0 and 1 on the other ranks


def test_ranks_agree_on_the_steps():
    of_rank = [list(sampler(rank=r)) for r in range(4)]
    assert len({len(batches) for batches in of_rank}) == 1
    together = sorted(itertools.chain(*itertools.chain(*of_rank)))
    assert len(together) == len(set(together)) > 496
    assert [len(sampler(rank=r)) for r in range(4)] == [len(batches) for batches in of_rank]


@pytest.mark.parametrize("new_ranks", [1, 2, 4, 8])
@pytest.mark.parametrize("yielded", [0, 1, 5, 8])
def test_resuming_with_other_ranks_loses_and_repeats_nothing(new_ranks, yielded):
    done, state = [], None
    for rank in range(4):
        s = sampler(rank=rank)
        batches = iter(s)
        done += itertools.chain(*(next(batches) for _ in range(yielded)))
        assert state in (None, s.state_dict())  # the same on every rank
        state = s.state_dict()
    rest = sampler(ranks=new_ranks)
    rest.load_state_dict(state)
    after = np.concatenate([np.empty(0, int), *epoch_documents(rest)]).astype(int).tolist()
    assert not set(done) & set(after)
    left = 500 - len(done) - len(after)
    assert left < new_ranks and len(set(done + after)) == len(done) + len(after)


def test_work_is_equal_where_no_document_outweighs_a_rank():
    s = sampler(step_tokens=60_000)
    ratios = []
    for step in s.steps():
        work = [sum(s.costs[b].sum() for b in of_rank) for of_rank in step.of_rank]
        if s.costs[step.documents].max() <= np.mean(work):
            ratios.append(max(work) / np.mean(work))
    assert len(ratios) > 3 and np.mean(ratios[:-1]) < 1.02


def test_costs_of_a_job_count():
    job = slimpack.Job("llama-3-8b", {"dp": 4}, "h100")
    costs = sampler(cost=job).costs
    # Linear and quadratic parts, and one overhead a slice: c(2n) lies between 2 c(n) - overhead and 4 c(n).
    a, b = job.sequence_costs([1000, 2000])
    assert 1.8 * a < b < 4 * a
    assert (costs == job.sequence_costs(LENGTHS)).all()


@pytest.mark.parametrize(("changes", "message"), [
    ({"max_tokens": 4095}, r"document \d+ has 4096 tokens, max_tokens is 4095; split"),
    ({"max_tokens": 0}, r"max_tokens is 0, must be"),
    ({"step_tokens": None}, r"give one of step_tokens and micro_batches"),
    ({"micro_batches": 2}, r"give one of step_tokens and micro_batches"),
    ({"rank": 4}, r"rank is 4, must be from 0 to 3"),
    ({"ranks": 0}, r"ranks is 0"),
    ({"lengths": [3, 0]}, r"leave empty ones out"),
    ({"cost": [1.0]}, r"for every document"),
])
def test_bad_input_is_refused(changes, message):
    with pytest.raises(slimpack.InvalidInput, match=message):
        sampler(**changes)


def test_states_of_other_data_are_refused():
    state = sampler().state_dict()
    with pytest.raises(slimpack.InvalidInput, match=r"of seed 0, here it is 1; go on with"):
        sampler(seed=1).load_state_dict(state)
    with pytest.raises(slimpack.InvalidInput, match=r"has version None"):
        sampler().load_state_dict({})


@pytest.mark.parametrize("with_labels", [False, True])
def test_the_collator_gives_what_transformers_gives(with_labels):
    from transformers import DataCollatorWithFlattening

    documents = [{"input_ids": [5, 6, 7]}, {"input_ids": [8]}, {"input_ids": [9, 10]}]
    if with_labels:
        for document in documents:
            document["labels"] = [i + 100 for i in document["input_ids"]]
    theirs = DataCollatorWithFlattening(return_flash_attn_kwargs=True, return_tensors="pt")(documents)
    for convert in (list, np.array, torch.tensor):
        ours = PackedCollator()([{k: convert(v) for k, v in d.items()} for d in documents])
        assert ours.keys() == theirs.keys()
        for name, value in theirs.items():
            same = torch.equal(ours[name], value) if torch.is_tensor(value) else ours[name] == value
            assert same, name
            assert not torch.is_tensor(value) or ours[name].dtype == value.dtype
        assert all(convert(d["input_ids"])[0] != -100 for d in documents)  # the input is left alone


def test_a_data_loader_takes_both():
    dataset = [{"input_ids": torch.full((n,), i)} for i, n in enumerate(LENGTHS.tolist())]
    loader = torch.utils.data.DataLoader(dataset, batch_sampler=sampler(), collate_fn=PackedCollator())
    batches = list(loader)
    assert len(batches) == len(loader) > 10
    for batch in batches:
        assert batch["input_ids"].shape[1] <= 4096 and batch["cu_seq_lens_q"][-1] == batch["labels"].numel()
