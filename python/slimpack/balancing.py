"""Whole sequences in micro-batches of equal work under a strict cap of tokens. Needs no torch."""

import numpy as np

from slimpack import _planner
from slimpack.numbers import INT64, whole


def require_positive(name, value):
    """None is any number."""
    if value is not None:
        whole(name, value, 1, INT64)


def costs_of(lengths, cost):
    """float64, by sequence. cost: a slimpack.Job, an array, or None for the FLOPs of a 7B model."""
    if cost is None:  # of a model of 7B parameters: work of a token, then of a pair of tokens
        return 24576.0 * lengths + lengths.astype(np.float64) ** 2
    if hasattr(cost, "sequence_costs"):
        return cost.sequence_costs(lengths)
    costs = np.ascontiguousarray(cost, dtype=np.float64)
    if costs.shape != lengths.shape or not (np.isfinite(costs).all() and (costs >= 0).all()):
        raise _planner.InvalidInput(
            "cost must be a slimpack.Job or a finite number of 0 or more for every document")
    return costs


def fewest_micro_batches(costs, lengths, ranks, cap, *, least=1, multiple=1):
    """[rank][micro-batch] of indices, under the cap, with as few micro-batches as hold them.

    Every rank has the same number of micro-batches: at least `least`, and a multiple of `multiple`.
    It is the next number where the fewest are so full that their work is unequal. None is empty.
    Returns None where no number fits.
    """
    least = max(least, -(-int(lengths.sum()) // (cap * ranks)))
    first = -(-least // multiple) * multiple
    found = []
    for count in range(first, lengths.size // ranks + 1, multiple):
        of_rank = _planner.micro_batches(costs, lengths, ranks, count, cap)
        found += [] if of_rank is None else [of_rank]
        if len(found) == 2 or (found and ranks == 1):
            break
    return min(found, key=lambda of_rank: _rounded_excess(of_rank, costs), default=None)


def _rounded_excess(of_rank, costs):
    """By how much the heaviest rank exceeds the mean, in steps of half a percent."""
    work = [costs[np.concatenate(batches)].sum() for batches in of_rank]
    return round(200 * max(work) / max(np.mean(work), np.finfo(float).tiny))


def light_at_both_ends(batches, costs):
    """The micro-batches of a rank in an order in which a pipeline fills and drains soon."""
    rising = sorted(batches, key=lambda batch: costs[batch].sum())
    return rising[::2] + rising[1::2][::-1]


def require_under_cap(lengths, cap, name, what="sequence"):
    """Refuses a length that no micro-batch can hold. `name` is the cap's argument."""
    if lengths.size == 0 or lengths.min() < 1:
        raise _planner.InvalidInput(
            f"a {what} has no tokens, or there is none; leave empty ones out")
    longest = int(lengths.argmax())
    if lengths[longest] > cap:
        raise _planner.InvalidInput(
            f"{what} {longest} has {lengths[longest]} tokens, {name} is {cap}; split long "
            f"documents first (slimpack.split_documents), or raise {name}")
