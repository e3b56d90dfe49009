"""What a rank does in a step, in order, as plain data."""

from typing import NamedTuple

from slimpack.torch.pipeline.packs import FORWARD


class Action(NamedTuple):
    """A pass of a MicroPack. source, target: the stages that its input comes from and its output
    goes to, or None. tokens: rows of both."""

    passes: str
    number: int
    tokens: int
    source: int | None
    target: int | None


def phases_of(stage_plan, place, *, forwards_first=False):
    """The Actions of a stage, in the order of its schedule. A stage receives an action's input
    before the action and sends its output after it.

    forwards_first: gives two lists, of all forward passes and of all backward passes; else one
    list.
    """
    before = None if place.is_first else place.index - 1
    after = None if place.is_last else place.index + 1
    actions = []
    for passes, number in stage_plan.order:
        if passes == FORWARD:
            tokens, ways = stage_plan.forward[number].tokens, (before, after)
        else:
            tokens, ways = stage_plan.backward[number].tokens, (after, before)
        actions.append(Action(passes, number, tokens, *ways))
    if not forwards_first:
        return [actions]
    return [[action for action in actions if action.passes == FORWARD],
            [action for action in actions if action.passes != FORWARD]]
