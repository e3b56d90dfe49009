"""Training-time test against drafting by plain loops, and against naive recounts."""

import math

import pytest
import torch
from heads import KINDS, VOCABULARY, naive_of, tiny_batch, tiny_head, tiny_target
from slimpack.draft import attention
from slimpack.draft.acceptance import acceptance_of
from slimpack.draft.config import STEPS
from slimpack.draft.unrolled import batch_of, unrolled, unrolled_loss


def places(lengths, steps=STEPS):
    """By step (sequence, i) of every row, in the order of rows."""
    return [[(b, i) for b, length in enumerate(lengths) for i in range(length - 1 - s)]
            for s in range(steps)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_unrolled_row_is_what_drafting_from_it_computes(kind, tmp_path):
    """Also: packed sequences do not see each other, since drafting runs on each alone."""
    head = tiny_head(**KINDS[kind])
    target = tiny_target(head)
    lengths = [9, 1, 5, 2, 3]
    sequences, features, batch = tiny_batch(head, target, lengths)
    naive = naive_of(head, target, tmp_path)
    wanted = [naive.guesses(tokens.tolist(), of.hidden_T3E, STEPS)
              for (tokens, _), of in zip(sequences, features)]
    steps = list(unrolled(head, batch, target.embedding_VE))
    assert len(steps) == STEPS
    for s, (step, rows) in enumerate(zip(steps, places(lengths))):
        assert len(step.logits_RV) == len(rows)
        for logits, (b, i) in zip(step.logits_RV, rows):
            torch.testing.assert_close(logits, wanted[b][i, s], rtol=1e-9, atol=1e-9)


def test_rows_in_several_blocks_are_what_drafting_computes(tmp_path, monkeypatch):
    monkeypatch.setattr(attention, "_BLOCK", 4)
    head = tiny_head()
    target = tiny_target(head)
    sequences, features, batch = tiny_batch(head, target, [14])
    wanted = naive_of(head, target, tmp_path).guesses(sequences[0][0].tolist(),
                                                      features[0].hidden_T3E, STEPS)
    for s, step in enumerate(unrolled(head, batch, target.embedding_VE)):
        for i, logits in enumerate(step.logits_RV):
            torch.testing.assert_close(logits, wanted[i, s], rtol=1e-9, atol=1e-9)


def recounted(head, target, sequences, features, naive):
    """By step (sum of cross entropies, counted rows), with no vector longer than a distribution."""
    sums = [[0.0, 0] for _ in range(STEPS)]
    for (tokens, first), of in zip(sequences, features):
        for (i, s), logits in naive.guesses(tokens.tolist(), of.hidden_T3E, STEPS).items():
            if i + 2 + s < first:
                continue
            sums[s][1] += 1
            judged = (target.head_VE @ of.final_TE[i + 1 + s]).tolist()
            if judged.index(max(judged)) not in VOCABULARY:
                continue
            wanted = [math.exp(judged[token]) for token in VOCABULARY]
            log_z = math.log(sum(math.exp(x) for x in logits.tolist()))
            sums[s][0] -= sum(w / sum(wanted) * (x - log_z)
                              for w, x in zip(wanted, logits.tolist()))
    return sums


@pytest.mark.parametrize("firsts", [[0, 0, 0], [4, 0, 6]])
def test_the_loss_is_the_recounted_one(firsts, tmp_path):
    head = tiny_head()
    target = tiny_target(head)
    sequences, features, batch = tiny_batch(head, target, [9, 4, 7], firsts)
    sums = recounted(head, target, sequences, features, naive_of(head, target, tmp_path))
    means = [total / max(rows, 1) for total, rows in sums]
    assert 0 < sum(rows for _, rows in sums) and len({rows for _, rows in sums}) > 2
    loss, by_step = unrolled_loss(head, batch, target)
    assert [of.item() for of in by_step] == pytest.approx(means, rel=1e-9)
    assert loss.item() == pytest.approx(sum(0.8 ** s * mean for s, mean in enumerate(means)), rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_finite_differences(kind):
    head = tiny_head(**KINDS[kind])
    target = tiny_target(head)
    _, _, batch = tiny_batch(head, target, [8, 5], [0, 3])
    loss, _ = unrolled_loss(head, batch, target)
    loss.backward()
    generator = torch.Generator().manual_seed(3)
    step = 1e-5
    trained = {name: p for name, p in head.named_parameters() if p.requires_grad}
    assert "embed_tokens.weight" not in trained and len(trained) >= 13
    for name, parameter in trained.items():
        flat = parameter.detach().view(-1)
        assert parameter.grad.abs().max() > 0, name
        for place in torch.randint(len(flat), (3,), generator=generator).tolist():
            before, sides = flat[place].item(), []
            for moved in (before + step, before - step):
                flat[place] = moved
                with torch.no_grad():
                    sides.append(unrolled_loss(head, batch, target)[0].item())
            flat[place] = before
            # Central differences are off by step² times the third derivative, and by rounding.
            assert parameter.grad.view(-1)[place].item() == pytest.approx(
                (sides[0] - sides[1]) / (2 * step), rel=1e-4, abs=1e-8), name


def test_accepted_guesses_are_the_recounted_ones(tmp_path):
    """Hidden states are random, so the text is made to follow the target often enough for long runs."""
    head = tiny_head()
    target = tiny_target(head)
    lengths, firsts = [40, 30, 2], [0, 12, 0]
    sequences, features, _ = tiny_batch(head, target, lengths, firsts)
    naive = naive_of(head, target, tmp_path)
    tried, accepted = [0] * STEPS, [0] * STEPS
    parts = []
    for number, ((tokens, first), of) in enumerate(zip(sequences, features)):
        first_guess = naive.guesses(tokens.tolist(), of.hidden_T3E, STEPS)
        best = of.best_T.tolist()
        for i in range(len(tokens) - 1):  # where an early guess is the judge's, too
            guess = VOCABULARY[int(first_guess[i, 0].argmax())]
            if (i + number) % 3:
                best[i + 1] = guess
        parts.append(of._replace(best_T=torch.tensor(best)))
        for i in range(len(tokens) - 1):
            for s in range(STEPS):
                if i + 2 + s < first:
                    break
                if i + 1 + s >= len(tokens):
                    break
                tried[s] += 1
                if VOCABULARY[int(first_guess[i, s].argmax())] != best[i + 1 + s]:
                    break
                accepted[s] += 1
                if i + 2 + s >= len(tokens) or tokens[i + 2 + s] != best[i + 1 + s]:
                    break
    found = acceptance_of(head, batch_of(sequences, parts), target.embedding_VE)
    assert (found.tried, found.accepted) == (tried, accepted)
    assert tried[1] > 0 and 0 < accepted[0] < tried[0]
    rates = [right / of if of else 0 for right, of in zip(accepted, tried)]
    products = [math.prod(rates[:s + 1]) for s in range(STEPS)]
    assert found.accepted_length == pytest.approx(1 + sum(products))
