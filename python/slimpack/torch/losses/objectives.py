"""Ready objectives: functions of the log-probabilities of a step's documents, for
Engine.step_on_logprobs.

An objective is called with two lists that have an entry for every sequence of the step, on all
replicas: the log-probability of each token after those before it, [tokens], by which it is
differentiated, and the weight of each token as a target, [tokens], fp64, 0 = it is none. It returns
the loss, a tensor of one number, or (loss, {metric: number}).
"""

from typing import NamedTuple

import torch
from torch.nn import functional

from slimpack import InvalidInput
from slimpack.torch.losses.tokens import require_number


class Value(NamedTuple):
    """loss, metrics: of an objective. coefficients: by sequence the loss's derivative by each token's
    log-probability."""

    loss: float
    metrics: dict[str, float]
    coefficients: list[torch.Tensor]


def value_of(objective, logprobs, weights):
    """The Value of an objective. Raises InvalidInput where it does not return what it must."""
    leaves = [one.detach().requires_grad_() for one in logprobs]
    with torch.enable_grad():
        said = objective(leaves, list(weights))
    loss, metrics = said if isinstance(said, tuple) and len(said) == 2 else (said, {})
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        what = f"a tensor of shape {list(loss.shape)}" if isinstance(loss, torch.Tensor) else type(loss).__name__
        raise InvalidInput(f"the objective returns {what}, must return a tensor of one number, or that and a "
                           "dict of metrics")
    if not loss.requires_grad:
        raise InvalidInput("the objective does not depend on the log-probabilities, so there is nothing to "
                           "learn; compute it from them, without detach() or item()")
    if not isinstance(metrics, dict):
        raise InvalidInput(f"the objective returns metrics of type {type(metrics).__name__}; give a dict of "
                           "numbers by name")
    found = torch.autograd.grad(loss.sum(), leaves, allow_unused=True)
    coefficients = [torch.zeros_like(leaf) if one is None else one for leaf, one in zip(leaves, found, strict=True)]
    return Value(loss.item(), {name: _number(value) for name, value in metrics.items()}, coefficients)


def _number(value):
    return value.item() if isinstance(value, torch.Tensor) else float(value)


def dpo(chosen, rejected, reference, *, beta=0.1, label_smoothing=0.0):
    """Direct preference optimization (arXiv 2305.18290): −log σ(beta · (margin of the chosen answer −
    margin of the rejected one)), the mean over pairs. A margin is how much more probable an answer is
    than for the reference.

    chosen, rejected: the numbers of the answers' sequences, pair by pair.
    reference: by sequence the log-probabilities of the reference, as Engine.logprobs returns them.
    label_smoothing: how often labels of pairs are wrong (conservative DPO).
    Metrics: accuracy (pairs whose chosen answer has the larger margin), margin (beta · the mean
    difference), chosen_logprob, rejected_logprob.
    """
    pairs = _pairs(chosen, rejected)
    require_number("beta", beta, 0, above=True)
    require_number("label_smoothing", label_smoothing, 0, 0.5)

    def objective(logprobs, weights):
        _require_sequences(pairs, reference, logprobs, weights)
        of_model, of_reference = ([_sums(one, weights, numbers) for numbers in pairs]
                                  for one in (logprobs, reference))
        margin_P = beta * ((of_model[0] - of_reference[0]) - (of_model[1] - of_reference[1]))
        loss = -((1 - label_smoothing) * functional.logsigmoid(margin_P)
                 + label_smoothing * functional.logsigmoid(-margin_P)).mean()
        return loss, {"accuracy": (margin_P > 0).double().mean(), "margin": margin_P.mean(),
                      "chosen_logprob": of_model[0].mean(), "rejected_logprob": of_model[1].mean()}

    return objective


def orpo(chosen, rejected, *, weight=0.1):
    """Odds-ratio preference optimization (arXiv 2403.07691): the cross-entropy of the chosen answers'
    targets, and weight · −log σ(log odds of the chosen answer − log odds of the rejected one), the
    mean over pairs. The odds are those of an answer's mean log-probability by target.

    Metrics: cross_entropy, odds_loss, accuracy.
    """
    pairs = _pairs(chosen, rejected)
    require_number("weight", weight, 0)

    def objective(logprobs, weights):
        _require_sequences(pairs, None, logprobs, weights)
        sums = [_sums(logprobs, weights, numbers) for numbers in pairs]
        counts = [torch.stack([weights[s].sum() for s in numbers]) for numbers in pairs]
        better_P, worse_P = (total / count for total, count in zip(sums, counts, strict=True))
        odds_P = (better_P - worse_P) - (_log_without(better_P) - _log_without(worse_P))
        of_odds = -functional.logsigmoid(odds_P).mean()
        cross_entropy = -sums[0].sum() / counts[0].sum()
        return cross_entropy + weight * of_odds, {
            "cross_entropy": cross_entropy, "odds_loss": of_odds, "accuracy": (odds_P > 0).double().mean()}

    return objective


def sequence_policy(advantages, old_logprobs, *, clip_low=3e-4, clip_high=4e-4):
    """Group sequence policy optimization (arXiv 2507.18071): PPO's clipped loss of whole answers, whose
    ratio is the geometric mean of the ratios of their tokens. The mean over sequences with a target.

    advantages: by sequence a number. old_logprobs: by sequence those of the policy that sampled, as
    Engine.logprobs returns them.
    Metrics: ratio, clip_fraction.
    """
    require_number("clip_low", clip_low, 0, 1)
    require_number("clip_high", clip_high, 0)

    def objective(logprobs, weights):
        for name, given in (("advantages", advantages), ("old_logprobs", old_logprobs)):
            if len(given) != len(logprobs):
                raise InvalidInput(f"{name} have {len(given)} entries, the step has {len(logprobs)} "
                                   "sequences; give one for each")
        numbers = [s for s, of in enumerate(weights) if of.any()]
        if not numbers:
            raise InvalidInput("no sequence has a target, so no ratio is known; give labels other than -100")
        counts_S = torch.stack([weights[s].sum() for s in numbers])
        gap_S = (_sums(logprobs, weights, numbers) - _sums(old_logprobs, weights, numbers)) / counts_S
        advantage_S = torch.tensor([float(advantages[s]) for s in numbers], dtype=torch.float64)
        ratio_S = gap_S.exp()
        clipped_S = ratio_S.clamp(1 - clip_low, 1 + clip_high)
        loss = -torch.minimum(ratio_S * advantage_S, clipped_S * advantage_S).mean()
        is_clipped_S = clipped_S * advantage_S < ratio_S * advantage_S
        return loss, {"ratio": ratio_S.mean(), "clip_fraction": is_clipped_S.double().mean()}

    return objective


def _sums(logprobs, weights, numbers):
    """By sequence of `numbers` the weighted sum of its targets' log-probabilities, fp64."""
    return torch.stack([(logprobs[s].double() * weights[s]).sum() for s in numbers])


def _log_without(logprob):
    """The logarithm of 1 − a probability."""
    return (-torch.expm1(logprob)).log()


def _pairs(chosen, rejected):
    chosen, rejected = list(map(int, chosen)), list(map(int, rejected))
    if len(chosen) != len(rejected) or not chosen:
        raise InvalidInput(f"{len(chosen)} chosen answers and {len(rejected)} rejected ones are no pairs; give "
                           "one or more of each, pair by pair")
    return chosen, rejected


def _require_sequences(pairs, reference, logprobs, weights):
    for number in (number for side in pairs for number in side):
        if not 0 <= number < len(logprobs):
            raise InvalidInput(f"a pair has sequence {number}, the step has {len(logprobs)}; give numbers of "
                               "the plan's sequences")
        if not weights[number].any():
            raise InvalidInput(f"sequence {number} of a pair has no target, so it has no probability; give "
                               "labels other than -100")
    if reference is not None and [len(of) for of in reference] != [len(of) for of in logprobs]:
        raise InvalidInput("the reference's log-probabilities have other lengths than the step's sequences; give "
                           "those of engine.logprobs for the same plan")
