"""The work of a rank in a step, in order, as plain data."""

from typing import NamedTuple

from slimpack.torch.pipeline.packs import FORWARD, SEND


class Instruction(NamedTuple):
    """An operation (packs.py) for a pass of a MicroPack. other: the stage that its input comes from
    or, of SEND, its output goes to; None = there is none. tokens: rows of both."""

    operation: str
    passes: str
    number: int
    tokens: int
    other: int | None


def phases_of(stage_plan, place, *, forwards_first=False):
    """The Instructions of a stage, in the order of its plan.

    forwards_first: gives two lists, of all forward passes and of all backward passes; else one
    list.
    """
    instructions = [_instruction(stage_plan, place, *entry) for entry in stage_plan.order]
    if not forwards_first:
        return [instructions]
    return [[i for i in instructions if i.passes == FORWARD],
            [i for i in instructions if i.passes != FORWARD]]


def _instruction(stage_plan, place, operation, passes, number):
    packs = stage_plan.forward if passes == FORWARD else stage_plan.backward
    to_later_stages = (passes == FORWARD) == (operation == SEND)
    other = place.index + (1 if to_later_stages else -1)
    if not 0 <= other < place.stages:
        other = None
    return Instruction(operation, passes, number, packs[number].tokens, other)
