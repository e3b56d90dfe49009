"""The work of a stage where nothing is learned: forward passes, of which nothing stays."""

import dataclasses

import torch

from slimpack.torch.pipeline.loss import logprobs_of
from slimpack.torch.pipeline.packs import FORWARD
from slimpack.torch.pipeline.stage_step import StageStep
from slimpack.torch.pipeline.sweeps import UP


class StageEvaluation(StageStep):
    """A StageStep of the forward passes alone. The last stage runs them to the end and adds up
    their loss."""

    def __init__(self, stage, stage_plan, tokens, targets, loss):
        super().__init__(stage, _forward_passes(stage_plan), tokens, targets, loss)

    def forward(self, number, rows_TD=None):
        pack, routers = self.plan.forward[number], self.stage.division.routers
        with torch.no_grad():
            hidden_TD = self.stage(self._work(pack, forward=True),
                                   self._ids(pack) if rows_TD is None else rows_TD)
        if routers is not None:
            routers.take()
        if not self.stage.place.is_last:
            return hidden_TD
        self._end(pack, hidden_TD)
        return None

    def sweep_of(self, passes, number):
        return UP

    def _end(self, pack, hidden_TD):
        """Takes what the last stage has computed of a pack."""
        self.loss.add_alone(hidden_TD, self._targets_of(pack))


class StageLogprobs(StageEvaluation):
    """A StageEvaluation that notes log-probabilities on the last stage, and adds up no loss.

    logprobs: by sequence of the replica, for each of its tokens the log-probability of the next one,
    [tokens], in the host's memory; 0 where that is no target.
    """

    def __init__(self, stage, stage_plan, tokens, targets, loss):
        super().__init__(stage, stage_plan, tokens, targets, loss)
        self._pieces = {sequence: [] for sequence in targets}

    def _end(self, pack, hidden_TD):
        found_T = logprobs_of(self.stage, hidden_TD, self._targets_of(pack)).cpu()
        sizes = [end - begin for _, begin, end in pack.slices]
        for (sequence, *_), piece_T in zip(pack.slices, found_T.split(sizes), strict=True):
            self._pieces[sequence].append(piece_T)  # forward slices ascend

    @property
    def logprobs(self):
        return {sequence: torch.cat(pieces) for sequence, pieces in self._pieces.items()}


def _forward_passes(stage_plan):
    order = [entry for entry in stage_plan.order if entry[1] == FORWARD]
    return dataclasses.replace(stage_plan, backward=[], order=order, kept={})
