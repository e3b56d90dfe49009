"""Mixtures in SlimPackSampler: how often the documents of each source come, and exact resumption."""

import itertools
import json
import math

import numpy as np
import pytest
import slimpack
from generated import examples
from hypothesis import given
from hypothesis import strategies as st
from slimpack.torch import SlimPackSampler
from slimpack.torch.mixture import Mixture

SOURCES = st.lists(st.lists(st.integers(1, 100), min_size=1, max_size=20), min_size=1, max_size=3)
OFTEN = st.sampled_from([0.3, 0.5, 0.999, 1, 1.5, 2, 2.6])


def samplers(sources, epochs, ranks, rule, **changes):
    """A sampler for each rank. rule: step_tokens if positive, else −micro_batches."""
    options = {"step_tokens": rule} if rule > 0 else {"micro_batches": -rule}
    return [SlimPackSampler(sources, 100, ranks=ranks, rank=rank, epochs=epochs, **options, **changes)
            for rank in range(ranks)]


def drawn_by(of_ranks):
    return sorted(document for batches in of_ranks for batch in batches for document in batch)


def expected_counts(sources, epochs):
    """By source (its documents of an epoch, least, most times of one), by Python's numbers alone."""
    found = []
    for source, often in zip(sources, epochs, strict=True):
        exact = often * len(source)
        count = math.floor(exact) + (exact - math.floor(exact) >= 0.5)
        found.append((count, count // len(source), -(-count // len(source))))
    return found


@st.composite
def mixtures(draw):
    sources = draw(SOURCES)
    epochs = [draw(OFTEN) for _ in sources]
    epochs = [max(often, 1 / len(source)) for often, source in zip(epochs, sources, strict=True)]
    return sources, epochs


@given(mixtures(), st.integers(1, 3), st.sampled_from([-2, -1, 50, 400]), st.booleans())
@examples(100)
def test_an_epoch_has_exactly_so_many_documents_of_each_source(mixture, ranks, rule, shuffle):
    sources, epochs = mixture
    of_ranks = samplers(sources, epochs, ranks, rule, shuffle=shuffle)
    begins = np.cumsum([0, *map(len, sources)])
    count = len(of_ranks[0])
    for _ in range(4):
        batches = [list(s) for s in of_ranks]
        assert {len(of_rank) for of_rank in batches} == {count}  # trainers count once
        times = np.bincount(drawn_by(batches), minlength=begins[-1])
        for source, (total, least, most) in enumerate(expected_counts(sources, epochs)):
            own = times[begins[source]:begins[source + 1]]
            assert own.sum() == total and least <= own.min() and own.max() <= most
        lengths = np.concatenate(sources)
        assert all(lengths[b].sum() <= 100 for of_rank in batches for b in of_rank if b)


@given(mixtures(), st.integers(1, 30))
@examples(50)
def test_no_document_of_a_source_comes_more_than_once_more_often_than_another(mixture, epochs):
    sources, often = mixture
    mixed = Mixture([np.array(source) for source in sources], often, 3)
    times = np.bincount(np.concatenate([mixed.drawn(epoch) for epoch in range(epochs)]),
                        minlength=mixed.lengths.size)
    for own in np.split(times, np.cumsum([len(source) for source in sources])[:-1]):
        assert own.max() - own.min() <= 1


def taken(sampler, count):
    found = []
    while len(found) < count:
        found += itertools.islice(sampler, count - len(found))
    return found


@given(mixtures(), st.integers(1, 3), st.integers(1, 3), st.sampled_from([-2, -1, 50, 400]), st.integers(0, 40),
       st.integers(0, 20))
@examples(100)
def test_a_state_after_any_batch_goes_on(mixture, ranks, others, rule, stop, more):
    """On as many ranks with the same batches, on others with the rest of the epoch."""
    of_ranks = samplers(*mixture, ranks, rule)
    before = [taken(s, stop) for s in of_ranks]
    state = json.loads(json.dumps(of_ranks[0].state_dict()))
    assert all(s.state_dict() == state for s in of_ranks)
    again, whole = samplers(*mixture, ranks, rule), samplers(*mixture, ranks, rule)
    for s in again:
        s.load_state_dict(state)
    assert [a + taken(b, more) for a, b in zip(before, again, strict=True)] == [
        taken(s, stop + more) for s in whole]
    rest = samplers(*mixture, others, rule)
    for s in rest:
        s.load_state_dict(state)
    epoch, count = rest[0].epoch, len(of_ranks[0])
    in_epoch = [batches[epoch * count:] for batches in before]
    mixed = rest[0].mixture
    # Where its own do not fit into as many micro-batches, an epoch has the documents of the first.
    assert drawn_by([*in_epoch, *(list(s) for s in rest)]) in [
        sorted(mixed.drawn(0).tolist()), sorted(mixed.drawn(epoch).tolist())]


def test_weights_are_shares_of_tokens():
    r = np.random.default_rng(4)
    sources = [r.integers(1, 200, 3000), r.integers(1, 50, 9000), r.integers(100, 300, 500)]
    s = SlimPackSampler(sources, 4096, ranks=2, rank=0, step_tokens=50_000, weights=[5, 3, 2])
    of_epoch = np.concatenate([step.documents for step in s.steps()])
    lengths, ends = np.concatenate(sources), np.cumsum([len(source) for source in sources])
    tokens = [lengths[of_epoch[(of_epoch >= end - len(source)) & (of_epoch < end)]].sum()
              for source, end in zip(sources, ends, strict=True)]
    np.testing.assert_allclose(np.array(tokens) / lengths.sum(), [0.5, 0.3, 0.2], rtol=0.003)


def test_epochs_of_a_heavy_tail_have_about_as_many_tokens():
    """So that no epoch has many micro-batches more than its documents fill: random halves differ by more."""
    r = np.random.default_rng(3)
    lengths = np.minimum(r.lognormal(6, 1.5, 400).astype(np.int64) + 1, 30_000)
    mixed = Mixture([lengths], [0.5], 0)
    halves = [mixed.drawn(0), mixed.drawn(1)]
    assert sorted(np.concatenate(halves)) == list(range(400))
    differences = [2 * lengths[r.permutation(400)[:200]].sum() - lengths.sum() for _ in range(200)]
    assert abs(lengths[halves[0]].sum() - lengths[halves[1]].sum()) < np.std(differences) / 2


def test_one_source_once_has_the_batches_of_a_sampler_without_a_mixture():
    lengths = list(range(1, 90))
    plain = SlimPackSampler(lengths, 100, ranks=1, rank=0, step_tokens=500)
    for mixed in ({"epochs": [1]}, {"weights": [3]}):
        s = SlimPackSampler([lengths], 100, ranks=1, rank=0, step_tokens=500, **mixed)
        assert taken(s, 150) == taken(plain, 150)
        plain.set_epoch(0)


@pytest.mark.parametrize(("lengths", "changes", "message"), [
    ([[3], [4]], {"weights": [1, 2], "epochs": [1, 1]}, r"give one of weights and epochs, not both"),
    ([[3], [4]], {"weights": [1]}, r"weights has 1 numbers, lengths has 2 sources; give one for each"),
    ([[3], [4]], {"epochs": [1, -0.5]}, r"epochs\[1\] is -0.5, must be above 0"),
    ([[3], [4]], {"weights": [float("nan"), 1]}, r"weights\[0\] is nan, must be above 0"),
    ([[3], [4]], {"epochs": 2}, r"epochs is 2, must be a list of numbers, one for each source"),
    ([[3], [4] * 9], {"epochs": [1, 0.01]}, r"source 1 comes 0.01 times an epoch, which is none of its 9 documents"),
    ([[3], []], {"epochs": [1, 1]}, r"source 1 has no tokens; leave it out"),
    (np.array([3, 4]), {"epochs": [1, 1]}, r"lengths are of one source; give a list of them"),
    ([[3], [4.5]], {"epochs": [1, 1]}, r"lengths are of type float64"),
    ([[3], [400]], {"epochs": [1, 1]}, r"document 1 has 400 tokens, max_tokens is 100"),
])
def test_bad_input_is_refused(lengths, changes, message):
    with pytest.raises(slimpack.InvalidInput, match=message):
        SlimPackSampler(lengths, 100, ranks=1, rank=0, micro_batches=1, **changes)


def test_a_state_of_another_mixture_is_refused():
    one, other = ({"epochs": [1, often]} for often in (1, 2))
    state = samplers([[3], [4]], one["epochs"], 1, -1)[0].state_dict()
    with pytest.raises(slimpack.InvalidInput, match=r"of epochs \[1.0, 1.0\], here it is \[1.0, 2.0\]; go on with"):
        samplers([[3], [4]], other["epochs"], 1, -1)[0].load_state_dict(state)
    plain = SlimPackSampler([3, 4], 100, ranks=1, rank=0, micro_batches=1)
    older = {name: value for name, value in plain.state_dict().items() if name != "epochs"}
    plain.load_state_dict(older)
    with pytest.raises(slimpack.InvalidInput, match=r"of epochs \[1.0, 1.0\], here it is \[1.0\]"):
        plain.load_state_dict(state)
