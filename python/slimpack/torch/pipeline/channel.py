"""Hidden states and their gradients between the stages of a replica, over c10d."""

import collections

import torch
import torch.distributed as dist

SLOTS = 8  # messages on their way to one stage in one direction, as schedules are checked with


class Channel:
    """One rank's sends and receives. Sizes are known from the plan, so none is ever exchanged.

    Each pass has a process group of its own, so that messages of the two directions never wait for
    each other. Sends run in the background, at most SLOTS at a time.
    """

    def __init__(self, stage, groups, rank_of):
        """groups: by pass. rank_of(stage): the global rank of a stage of this replica."""
        self._stage, self._groups, self._rank_of = stage, groups, rank_of
        self._sending = {passes: collections.deque() for passes in groups}

    def receive(self, action):
        """The input of an action, [tokens, D]."""
        rows_TD = torch.empty(action.tokens, self._stage.width, dtype=self._stage.dtype,
                              device=self._stage.device)
        dist.recv(rows_TD, self._rank_of(action.source), group=self._groups[action.passes])
        return rows_TD

    def send(self, action, rows_TD):
        """Sends the output of an action."""
        sending = self._sending[action.passes]
        while len(sending) >= SLOTS or sending and sending[0][0].is_completed():
            sending.popleft()[0].wait()
        rows_TD = rows_TD.contiguous()  # alive as long as the message
        sending.append((dist.isend(rows_TD, self._rank_of(action.target),
                                   group=self._groups[action.passes]), rows_TD))

    def finish(self):
        """Waits until everything has been sent."""
        for sending in self._sending.values():
            while sending:
                sending.popleft()[0].wait()
