"""Losses for slimpack.torch.pipeline, and for whoever writes one.

A loss of tokens is a function of a block of Rows that gives one number for each row:

    def policy_gradient(rows):
        return -rows.logprobs_T * rows["advantages"]

    engine = pipeline.Engine(stage, loss=policy_gradient)
    result = engine.step(plan, documents, extras={"advantages": advantages})

An objective is a function of the log-probabilities of whole documents, for what is no sum over tokens:

    result = engine.step_on_logprobs(plan, documents, losses.dpo(chosen, rejected, reference))
"""

from slimpack.torch.losses.objectives import dpo, orpo, sequence_policy
from slimpack.torch.losses.rows import Rows
from slimpack.torch.losses.tokens import CrossEntropy, Distillation, PolicyLoss

__all__ = ["CrossEntropy", "Distillation", "PolicyLoss", "Rows", "dpo", "orpo", "sequence_policy"]
