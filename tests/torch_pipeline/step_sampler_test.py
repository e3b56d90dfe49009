"""Steps of documents: each once an epoch, in the order that a cursor resumes."""

import pytest
from slimpack import InvalidInput
from slimpack.torch.pipeline import StepSampler

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


@pytest.mark.parametrize("settings", [{"context": 32}, {"step_tokens": 99}])
def test_a_cursor_of_other_settings_is_refused(settings):
    name, = settings
    with pytest.raises(InvalidInput, match=f"sampler's {name} was"):
        sampler(**settings).load_state_dict(sampler().state_dict())


def test_settings_are_whole_positive_numbers():
    with pytest.raises(InvalidInput, match="step_tokens is 0"):
        sampler(step_tokens=0)
