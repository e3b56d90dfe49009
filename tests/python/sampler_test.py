"""SlimPackSampler: every document once an epoch, a strict cap, equal work, exact resumption."""

import itertools
import json

import numpy as np
import pytest
import slimpack
from generated import examples
from hypothesis import given
from hypothesis import strategies as st
from slimpack.torch import SlimPackSampler

LENGTHS = np.minimum(np.random.default_rng(3).lognormal(6, 1.2, 500).astype(np.int64) + 1, 4096)


def sampler(**changes):
    arguments = {"lengths": LENGTHS, "max_tokens": 4096, "ranks": 4, "rank": 0, "step_tokens": 40_000}
    return SlimPackSampler(**{**arguments, **changes})


def of_ranks(lengths, cap, ranks, rule, **changes):
    """A sampler for each rank. rule: step_tokens if positive, else −micro_batches."""
    options = {"step_tokens": rule} if rule > 0 else {"micro_batches": -rule}
    return [SlimPackSampler(lengths, cap, ranks=ranks, rank=rank, **options, **changes) for rank in range(ranks)]


def taken(sampler, count):
    """So many batches, in as many epochs as they take."""
    found = []
    while len(found) < count:
        found += itertools.islice(sampler, count - len(found))
    return found


def documents_of(batches_of_ranks):
    return [document for batches in batches_of_ranks for batch in batches for document in batch]


LISTS = st.lists(st.integers(1, 100), min_size=1, max_size=60)
RULES = st.one_of(st.integers(1, 2000), st.integers(-3, -1))


@given(LISTS, st.integers(1, 5), st.integers(100, 300), RULES, st.booleans(), st.integers(0, 9))
@examples(300)
def test_every_document_comes_once_in_each_of_four_epochs(lengths, ranks, cap, rule, shuffle, seed):
    """The samplers are used by a trainer's rule: the length once, then so many batches in every epoch."""
    samplers = of_ranks(lengths, cap, ranks, rule, shuffle=shuffle, seed=seed)
    count = len(samplers[0])
    for epoch in range(4):
        assert {s.epoch for s in samplers} == {epoch} and {len(s) for s in samplers} == {count}
        batches = [list(itertools.islice(s, count)) for s in samplers]
        assert {len(of_rank) for of_rank in batches} == {count}
        assert sorted(documents_of(batches)) == list(range(len(lengths)))
        assert all(sum(lengths[d] for d in batch) <= cap for of_rank in batches for batch in of_rank)


@given(LISTS, st.integers(1, 5), st.integers(1, 5), st.integers(100, 300), RULES, st.integers(0, 120),
       st.integers(0, 60))
@examples(300)
def test_a_state_after_any_batch_goes_on(lengths, ranks, others, cap, rule, stop, more):
    """On as many ranks with the same batches, on others with the rest of the epoch; and both again."""
    samplers = of_ranks(lengths, cap, ranks, rule)
    before = [taken(s, stop) for s in samplers]
    state = json.loads(json.dumps(samplers[0].state_dict()))
    assert all(s.state_dict() == state for s in samplers)
    same = resumed(of_ranks(lengths, cap, ranks, rule), state)
    assert [a + taken(b, more) for a, b in zip(before, same, strict=True)] == [
        taken(s, stop + more) for s in of_ranks(lengths, cap, ranks, rule)]
    count = len(resumed(of_ranks(lengths, cap, others, rule), state)[0])
    first = [taken(s, more % count) for s in resumed(of_ranks(lengths, cap, others, rule), state)]
    middle = resumed(of_ranks(lengths, cap, others, rule), state)
    assert [taken(s, more % count) for s in middle] == first
    end = resumed(of_ranks(lengths, cap, ranks, rule), middle[0].state_dict())
    epoch, last = end[0].epoch, [list(s) for s in end]
    times = np.bincount(documents_of(before + first + last), minlength=len(lengths))
    assert (times == epoch + 1).all()


def resumed(samplers, state):
    for s in samplers:
        s.load_state_dict(state)
    return samplers


@given(LISTS, st.integers(1, 4), st.integers(100, 300), RULES)
@examples(100)
def test_steps_are_what_the_ranks_get(lengths, ranks, cap, rule):
    samplers = of_ranks(lengths, cap, ranks, rule)
    steps = list(samplers[0].steps())
    for rank, s in enumerate(samplers):
        assert [b.tolist() for step in steps for b in step.of_rank[rank]] == list(s)
    for step in steps:
        assert len({len(of_rank) for of_rank in step.of_rank}) == 1 and len(step.documents)
        together = np.concatenate(list(itertools.chain(*step.of_rank)))
        assert sorted(together) == sorted(step.documents)
    if rule > 0:  # the same on any number of ranks, each with the first documents that hold the tokens
        alone = of_ranks(lengths, cap, 1, rule)[0].steps()
        assert [a.documents.tolist() for a in steps] == [b.documents.tolist() for b in alone]


@pytest.mark.parametrize(("documents", "ranks", "batches"), [(10, 3, 4), (3, 4, 1), (5, 4, 2), (9, 4, 3), (1, 8, 1)])
def test_documents_that_are_no_multiple_of_the_ranks_all_come(documents, ranks, batches):
    samplers = of_ranks([100] * documents, 128, ranks, -1)
    of_rank = [list(s) for s in samplers]
    assert {len(one) for one in of_rank} == {batches}
    assert sorted(documents_of(of_rank)) == list(range(documents))


def test_steps_of_fixed_micro_batches_are_never_short():
    """So that gradient accumulation never crosses from one step into the next."""
    for step in sampler(step_tokens=None, micro_batches=3).steps():
        assert {len(of_rank) for of_rank in step.of_rank} == {3}


def test_an_epoch_follows_another_one():
    s = sampler()
    first, second = list(s), list(s)
    assert first != second and s.epoch == 2
    alone = sampler()
    alone.set_epoch(1)
    assert list(alone) == second


def test_the_state_after_the_last_batch_is_the_beginning_of_the_next_epoch():
    s = sampler()
    for _ in s:
        last = s.state_dict()
    other = sampler()
    other.load_state_dict(last)
    assert last["epoch"] == other.epoch == 1 and len(other) == len(sampler())
    assert list(other) == list(s)


def test_an_iteration_that_is_broken_off_begins_again():
    s = sampler()
    whole = len(s)
    first = list(itertools.islice(s, 3))
    assert len(s) == whole and list(itertools.islice(s, 3)) == first


def test_set_epoch_keeps_a_loaded_place_and_never_forgets_it():
    s = sampler()
    list(s)
    list(itertools.islice(s, 3))
    state, rest = s.state_dict(), taken(s, len(s))[3:]
    other = sampler()
    other.load_state_dict(state)
    with pytest.raises(slimpack.InvalidInput, match=r"set_epoch\(0\) would forget the loaded state of epoch 1"):
        other.set_epoch(0)
    other.set_epoch(1)
    assert list(other) == rest
    for wrong in (-1, 1.5, None, True):
        with pytest.raises(slimpack.InvalidInput, match=r"the epoch is .*, must be a whole number"):
            other.set_epoch(wrong)


def test_ranks_agree_on_the_steps():
    of_rank = [list(sampler(rank=r)) for r in range(4)]
    assert len({len(batches) for batches in of_rank}) == 1
    together = sorted(itertools.chain(*itertools.chain(*of_rank)))
    assert together == list(range(500))
    assert [len(sampler(rank=r)) for r in range(4)] == [len(batches) for batches in of_rank]


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
    ({"rank": 4}, r"rank is 4, must be a whole number from 0 to 3"),
    ({"rank": 1.5}, r"rank is 1.5, must be a whole number from 0 to 3"),
    ({"seed": -1}, r"seed is -1, must be a whole number from 0 to"),
    ({"seed": None}, r"seed is None, must be a whole number"),
    ({"step_tokens": 2.5}, r"step_tokens is 2.5, must be a whole number from 1 to"),
    ({"max_tokens": 2**70}, r"max_tokens is 1180591620717411303424, must be a whole number from 1 to"),
    ({"ranks": 0}, r"ranks is 0"),
    ({"seed": -1}, r"seed is -1, must be a whole number from 0"),
    ({"seed": 1.5}, r"seed is 1.5, must be"),
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
    with pytest.raises(slimpack.InvalidInput, match=r"of tokens \d+, here it is \d+; go on with"):
        sampler(lengths=LENGTHS[::-1] // 2 + 1).load_state_dict(state)
    old = {"version": 1, "documents": 500, "seed": 0, "shuffle": True, "epoch": 0, "consumed": 9, "pending": [3]}
    for wrong, message in (({}, "has version None, must be 2"), (None, "has version None"),
                           (old, "has version 1, must be 2; take"),
                           ({**old, "version": 2}, "has no entry 'tokens'; give what")):
        with pytest.raises(slimpack.InvalidInput, match=message):
            sampler().load_state_dict(wrong)
