"""The work of a stage where the loss alone is asked for: forward passes, of which nothing stays."""

import dataclasses

import torch

from slimpack.torch.pipeline.loss import loss_alone
from slimpack.torch.pipeline.packs import FORWARD
from slimpack.torch.pipeline.stage_step import StageStep


class StageEvaluation(StageStep):
    """A StageStep of the forward passes alone. The last stage runs them to the end and adds up
    their loss."""

    def __init__(self, stage, stage_plan, tokens, targets, divisor):
        super().__init__(stage, _forward_passes(stage_plan), tokens, targets, divisor)

    def forward(self, number, rows_TD=None):
        pack, routers = self.plan.forward[number], self.stage.division.routers
        with torch.no_grad():
            hidden_TD = self.stage(self._work(pack, forward=True),
                                   self._ids(pack) if rows_TD is None else rows_TD)
        if routers is not None:
            routers.take()
        if not self.stage.place.is_last:
            return hidden_TD
        self.loss += loss_alone(self.stage, hidden_TD, self._targets_of(pack), self.divisor)
        return None


def _forward_passes(stage_plan):
    order = [entry for entry in stage_plan.order if entry[1] == FORWARD]
    return dataclasses.replace(stage_plan, backward=[], order=order, kept={})
