"""Steps of documents: each once an epoch, in the order that a cursor resumes."""

import json
from collections import Counter

import numpy as np
import pytest
import torch
from slimpack import InvalidInput
from slimpack.torch.pipeline import StepSampler, read_from

LENGTHS = [5, 130, 64, 1, 40, 77, 12, 200]


def sampler(**settings):
    return StepSampler(LENGTHS, **{"context": 64, "step_tokens": 100, "seed": 3, **settings})


def tokens_of(step):
    ranges = zip(*step[:3], strict=True)
    return [(d, begin + i) for d, begin, length in ranges for i in range(length)]


def test_an_epoch_has_every_token_once_in_sequences_of_at_most_the_context():
    drawn, one = [], sampler()
    while len(drawn) < sum(LENGTHS):
        step = one.next_step()
        assert step.lengths.max() <= 64
        assert step.lengths.sum() - step.lengths[-1] < 100 <= step.lengths.sum()
        drawn += tokens_of(step)
    assert sorted(drawn[:sum(LENGTHS)]) == [(d, i) for d, n in enumerate(LENGTHS) for i in range(n)]


def test_a_cursor_goes_on_where_it_was_taken():
    one, other = sampler(), sampler(seed=9)
    steps = [one.next_step() for _ in range(6)]
    other.load_state_dict(one.state_dict(steps[3].cursor))
    for step in steps[4:]:
        assert tokens_of(other.next_step()) == tokens_of(step)
    assert other.state_dict() == one.state_dict()


def test_looking_at_the_next_step_does_not_take_it():
    one, other = sampler(), sampler()
    for _ in range(5):
        lengths = one.peek()
        assert list(lengths) == list(one.next_step().lengths) == list(other.next_step().lengths)


@pytest.mark.parametrize("settings", [{"context": 32}, {"step_tokens": 99}, {"long_documents": "drop"}])
def test_a_cursor_of_other_settings_is_refused(settings):
    name, = settings
    with pytest.raises(InvalidInput, match=f"sampler's {name} was"):
        sampler(**settings).load_state_dict(sampler().state_dict())


def test_settings_are_whole_positive_numbers():
    with pytest.raises(InvalidInput, match="step_tokens is 0"):
        sampler(step_tokens=0)


def test_long_documents_are_truncated_or_left_out():
    fitting = [(d, n) for d, n in enumerate(LENGTHS) if n <= 64]
    for kind, expected in (("drop", fitting),
                           ("truncate", [(d, min(n, 64)) for d, n in enumerate(LENGTHS)])):
        step = sampler(long_documents=kind, step_tokens=sum(n for _, n in expected)).next_step()
        assert sorted(zip(step.documents, step.lengths, strict=True)) == expected
        assert not step.begins.any()
    with pytest.raises(InvalidInput, match='long_documents is "cut", must be one of split, truncate, drop'):
        sampler(long_documents="cut")
    with pytest.raises(InvalidInput, match="longer than the context of 4.*raise the context"):
        StepSampler([5, 9], context=4, step_tokens=8, long_documents="drop")


def test_a_state_from_before_long_documents_were_a_choice_split_them():
    state = sampler().state_dict()
    del state["long_documents"]
    sampler().load_state_dict(state)
    with pytest.raises(InvalidInput, match="long_documents was split, here it is truncate"):
        sampler(long_documents="truncate").load_state_dict(state)


OTHER = [30, 2, 90, 17]


def mixture(**settings):
    settings = {"context": 64, "step_tokens": 100, "seed": 3, **settings}
    return StepSampler([LENGTHS, np.array(OTHER)], **settings)


def test_an_epoch_of_a_mixture_has_its_passes_also_over_resumes():
    whole = [(d, i) for d, n in enumerate(LENGTHS + OTHER) for i in range(n)]
    passes = {d: 1 if d < len(LENGTHS) else 3 for d in range(len(LENGTHS) + len(OTHER))}
    tokens = sum(LENGTHS) + 3 * sum(OTHER)
    drawn, state = [], mixture(epochs=[1, 3]).state_dict()
    while len(drawn) < tokens:
        one = mixture(epochs=[1, 3], seed=8)
        one.load_state_dict(json.loads(json.dumps(state)))
        for _ in range(2):
            drawn += tokens_of(one.next_step())
        state = one.state_dict()
    assert Counter(drawn[:tokens]) == {token: passes[token[0]] for token in whole}


def test_weights_hold_at_every_step():
    """No source is further from its share than a sequence, of at most 64 tokens, takes one."""
    one, given = mixture(weights=[1, 3]), np.zeros(2)
    for _ in range(20):
        step = one.next_step()
        np.add.at(given, (step.documents >= len(LENGTHS)).astype(int), step.lengths)
        assert abs(given[1] - 0.75 * given.sum()) <= 64


@pytest.mark.parametrize("shares", [{"weights": [1, 3]}, {"epochs": [0.5, 2]}, {}])
def test_a_cursor_of_a_mixture_goes_on_where_it_was_taken(shares):
    one, other = mixture(**shares), mixture(**shares, seed=9)
    steps = [one.next_step() for _ in range(6)]
    other.load_state_dict(one.state_dict(steps[3].cursor))
    lengths = other.peek()
    for step in steps[4:]:
        assert tokens_of(other.next_step()) == tokens_of(step)
    assert list(lengths) == list(steps[4].lengths)
    assert other.state_dict() == one.state_dict()


def test_a_single_dataset_is_drawn_as_it_is_alone():
    one, listed = sampler(), StepSampler([LENGTHS], context=64, step_tokens=100, seed=3, weights=[2])
    for _ in range(5):
        assert tokens_of(one.next_step()) == tokens_of(listed.next_step())
    assert one.state_dict() == listed.state_dict()


def test_a_cursor_of_another_mixture_is_refused():
    state = mixture(weights=[1, 3]).state_dict()
    for other, name in ((mixture(weights=[1, 2]), "weights"), (mixture(), "weights"),
                        (StepSampler([OTHER, LENGTHS], context=64, step_tokens=100, weights=[1, 3]),
                         "sources"),
                        (StepSampler(LENGTHS + OTHER, context=64, step_tokens=100), "sources")):
        with pytest.raises(InvalidInput, match=f"sampler's {name} was"):
            other.load_state_dict(state)
    with pytest.raises(InvalidInput, match="sampler's sources was None"):
        mixture().load_state_dict(StepSampler(LENGTHS + OTHER, context=64, step_tokens=100).state_dict())


@pytest.mark.parametrize("shares, message", [
    ({"weights": [1, 0]}, r"weights of lengths\[1\] are 0, must be from"),
    ({"weights": [1, float("nan")]}, "weights of .* are nan"),
    ({"weights": [-1, 1]}, r"weights of lengths\[0\] are -1"),
    ({"weights": [1]}, "1 weights for 2 sources"),
    ({"weights": "ab"}, "weights are 'ab', must be numbers"),
    ({"weights": 3}, "weights are 3, must be numbers"),
    ({"weights": [1, 1], "epochs": [1, 1]}, "weights and epochs; give one of them"),
    ({"epochs": [0.01, 1]}, "epochs of .* are 0.01, of its .* sequences that rounds to none"),
])
def test_shares_are_positive_numbers_one_for_each_dataset(shares, message):
    with pytest.raises(InvalidInput, match=message):
        mixture(**shares)


def test_a_dataset_of_a_mixture_has_documents():
    with pytest.raises(InvalidInput, match="no token is predicted"):
        StepSampler([LENGTHS, []], context=64, step_tokens=100)


def test_datasets_are_read_by_numbers_that_go_through():
    class Numbered:
        def __init__(self, first, lengths):
            self.tokens = [torch.arange(n) + 1000 * (first + d) for d, n in enumerate(lengths)]

        def __len__(self):
            return len(self.tokens)

        def read(self, document, begin, end):
            return self.tokens[document][begin:end]

    read = read_from([Numbered(0, LENGTHS), Numbered(0, []), Numbered(len(LENGTHS), OTHER)])
    for document, length in enumerate(LENGTHS + OTHER):
        assert read(document, length // 2, length).tolist() == [
            1000 * document + i for i in range(length // 2, length)]
