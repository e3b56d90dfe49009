"""Slices and replicas of a StepPlan, as the exports read them."""

from typing import NamedTuple

from slimpack import InvalidInput


class Slice(NamedTuple):
    """Tokens begin to before end of a sequence; `begin` tokens precede it."""

    sequence: int
    begin: int
    end: int


def slices(pack):
    """The slices of a MicroPack, in its order."""
    return [Slice(*map(int, of_slice))
            for of_slice in zip(pack.sequences, pack.begin, pack.end, strict=True)]


def replica_of(step, replica):
    """That ReplicaPlan, without merged MicroPacks."""
    if not 0 <= replica < len(step.replicas):
        raise IndexError(f"replica {replica} of {len(step.replicas)}")
    found = step.replicas[replica]
    for passes in ("forward", "backward"):
        for index, pack in enumerate(getattr(found, passes)):
            if pack.replicas > 1:
                raise InvalidInput(
                    f"{passes} MicroPack {index} of replica {replica} is shared by {pack.replicas} "
                    "replicas, which this tool has no form for; plan with most_merged=1")
    return found
