"""The documents that the steps of an epoch take, and the number of micro-batches of a rank in each.

Every epoch has as many micro-batches as the first one: trainers count those once, take as many in
every epoch, and would leave out what is more.

1. A step takes the next documents: until they hold step_tokens, or as many as best-fit-decreasing
   packs put into its micro-batches.
2. If that takes more or fewer micro-batches than the first epoch did, the last steps are cut anew:
   the last one, the last two, the last four, …
3. If no number of steps does, the epoch has the steps of the first one, in another order.
"""

import bisect
import dataclasses
from typing import NamedTuple

import numpy as np


@dataclasses.dataclass(frozen=True)
class StepRules:
    """The limits of a step; one of step_tokens and micro_batches is None."""

    ranks: int
    max_tokens: int  # of a micro-batch
    step_tokens: int | None
    micro_batches: int | None


class Cut(NamedTuple):
    """The documents of a step, and the micro-batches that every rank has in it."""

    documents: np.ndarray
    micro_batches: int


def packs(lengths, cap):
    """Best fit decreasing: lists of indices; no list holds more than cap tokens."""
    found, of_room, rooms = [], {}, []  # by room the packs that have it, and the rooms there are
    for index in np.argsort(-lengths, kind="stable").tolist():
        length = int(lengths[index])
        place = bisect.bisect_left(rooms, length)
        if place == len(rooms):
            pack, room = len(found), cap
            found.append([])
        else:
            room = rooms[place]
            pack = of_room[room].pop()
            if not of_room[room]:
                del rooms[place]
        found[pack].append(index)
        left = room - length
        if left:
            holders = of_room.setdefault(left, [])
            if not holders:
                bisect.insort(rooms, left)
            holders.append(pack)
    return found


def cut(lengths, stream, rules):
    """The Cuts of a stream of documents, one after another. lengths: of all documents."""
    tokens = np.concatenate([[0], lengths[stream].cumsum()])
    begin, cuts = 0, []
    while begin < len(stream):
        cuts.append(_next_cut(lengths, stream, tokens, begin, rules))
        begin += len(cuts[-1].documents)
    return cuts


def _next_cut(lengths, stream, tokens, begin, rules):
    """The Cut of the documents from `begin` on; tokens: those before each document of the stream."""
    if rules.step_tokens:
        end = int(np.searchsorted(tokens, tokens[begin] + rules.step_tokens))
        documents = stream[begin:end]
        return Cut(documents, -(-len(packs(lengths[documents], rules.max_tokens)) // rules.ranks))
    room = rules.ranks * rules.micro_batches
    count = int(np.searchsorted(tokens, tokens[begin] + room * rules.max_tokens, "right")) - 1 - begin
    while True:
        documents = stream[begin:begin + count]
        needed = len(packs(lengths[documents], rules.max_tokens))
        if needed <= room:
            return Cut(documents, rules.micro_batches)
        count = max(min(count * room // needed, count - 1), 1)


def with_total(cuts, lengths, rules, total):
    """(number of Cuts that stay, Cuts): those with `total` micro-batches of a rank, of which the
    last ones are cut anew. None: there is no such cut of the last ones."""
    if sum(one.micro_batches for one in cuts) == total:
        return len(cuts), cuts
    size = 1
    while size < 2 * len(cuts):
        stay = max(len(cuts) - size, 0)
        documents = np.concatenate([one.documents for one in cuts[stay:]])
        left = total - sum(one.micro_batches for one in cuts[:stay])
        anew = _cut_anew(lengths, documents, rules, left)
        if anew is not None:
            return stay, cuts[:stay] + anew
        size *= 2
    return None


def _cut_anew(lengths, documents, rules, total):
    """Cuts of the documents with so many micro-batches of a rank, or None."""
    if rules.micro_batches:
        steps = total // rules.micro_batches
    else:
        steps = min(max(round(int(lengths[documents].sum()) / rules.step_tokens), 1), total)
    if not 1 <= steps <= len(documents):
        return None
    micro_batches = [len(part) for part in np.array_split(np.arange(total), steps)]
    rooms = [rules.ranks * number for number in micro_batches]
    parts = np.array_split(documents, steps)
    if any(len(packs(lengths[part], rules.max_tokens)) > room
           for part, room in zip(parts, rooms, strict=True)):
        parts = _dealt(packs(lengths[documents], rules.max_tokens), documents, rooms)
    return parts and [Cut(*of_step) for of_step in zip(parts, micro_batches, strict=True)]


def _dealt(found, documents, rooms):
    """The documents of packs, dealt to steps in proportion to their rooms for packs, or None."""
    if not len(rooms) <= len(found) <= sum(rooms):
        return None
    turns = sorted((pack / room, step) for step, room in enumerate(rooms) for pack in range(room))
    parts = [[] for _ in rooms]
    for (_, step), pack in zip(turns, found, strict=False):
        parts[step] += pack
    return [documents[part] for part in parts]
