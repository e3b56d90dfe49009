"""Micro-batches for verl's dynamic batches: verl.utils.seqlen_balancing with a cap that holds.

    lengths = batch["attention_mask"].sum(dim=1)
    indices, restored = verl.rearrange_micro_batches(lengths, max_token_len, dp_group)
    micro_batches = [index_select_tensor_dict(batch, of_one) for of_one in indices]
    …                                     # verl's restore_dynamic_batch(outputs, indices), or
    outputs = torch.cat(outputs)[restored]
"""

import numpy as np

from slimpack import InvalidInput
from slimpack.balancing import (
    costs_of,
    fewest_micro_batches,
    light_at_both_ends,
    require_positive,
    require_under_cap,
)
from slimpack.lengths import as_lengths


def rearrange_micro_batches(lengths, max_token_len, dp_group=None, num_batches_divided_by=None,
                            same_micro_num_in_dp=True, min_num_micro_batch=None,
                            use_dynamic_bsz_balance=True, force_group_size=1, *, cost=None):
    """(index lists, restored): by micro-batch the sequences it holds, ascending; and for every
    sequence where it comes when the micro-batches follow one another.

    lengths: tokens of this rank's sequences. The other arguments are those of verl's function:
    max_token_len: no micro-batch holds more; verl's own balance may exceed it.
    dp_group, same_micro_num_in_dp: all ranks of the group get the same number of micro-batches. All
        of them must call this then.
    num_batches_divided_by, min_num_micro_batch: the number is a multiple of the one and at least
        the other.
    use_dynamic_bsz_balance: light micro-batches come first and last, so that pipelines fill sooner.
    force_group_size: so many consecutive sequences stay together.
    cost: a slimpack.Job or an array of costs of the sequences; by default the FLOPs of a 7B model.

    Raises InvalidInput; if one rank cannot have as many micro-batches as the others, on all of
    them.
    """
    for name, value in (("max_token_len", max_token_len),
                        ("min_num_micro_batch", min_num_micro_batch),
                        ("num_batches_divided_by", num_batches_divided_by),
                        ("force_group_size", force_group_size)):
        require_positive(name, value)
    lengths = as_lengths(lengths)
    costs = costs_of(lengths, cost)
    tokens, work = (_by_group(values, force_group_size) for values in (lengths, costs))
    require_under_cap(tokens, max_token_len, "max_token_len",
                      "sequence" if force_group_size == 1 else "group")
    groups = _agreed(work, tokens, max_token_len, dp_group if same_micro_num_in_dp else None,
                     min_num_micro_batch or 1, num_batches_divided_by or 1)
    if use_dynamic_bsz_balance:
        groups = light_at_both_ends(groups, work)
    members = np.arange(lengths.size).reshape(-1, force_group_size)
    indices = [members[sorted(of_one)].ravel().tolist() for of_one in groups]
    return indices, np.argsort(np.concatenate(indices)).tolist()


def _by_group(values, size):
    if values.size % size:
        raise InvalidInput(f"{values.size} sequences are no whole groups of force_group_size = "
                           f"{size}; give a multiple of it")
    return np.ascontiguousarray(values.reshape(-1, size).sum(axis=1))


def _agreed(work, tokens, cap, dp_group, least, multiple):
    """Micro-batches of groups of sequences, in a number that every rank of dp_group has room
    for."""
    while True:
        found = fewest_micro_batches(work, tokens, 1, cap, least=least, multiple=multiple)
        counts = _of_all_ranks(len(found[0]) if found else None, dp_group)
        if None in counts:
            raise InvalidInput(
                f"data-parallel rank {counts.index(None)} has too few sequences for {least} or "
                f"more micro-batches in multiples of {multiple}, of which none is empty; give "
                "every rank more sequences, or lower min_num_micro_batch")
        if min(counts) == max(counts):
            return found[0]
        least = max(counts)


def _of_all_ranks(value, dp_group):
    if dp_group is None:
        return [value]
    from torch import distributed

    values = [None] * distributed.get_world_size(dp_group)
    distributed.all_gather_object(values, value, group=dp_group)
    return values
