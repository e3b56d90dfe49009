"""Trains Hugging Face causal decoders, their own code unchanged, by SlimPack's plans over c10d
processes.

    from slimpack.torch import pipeline

    stage = pipeline.Stage.from_pretrained(folder, job.stages_for(lengths), rank % stages)
    engine = pipeline.Engine(stage)
    optimizer = torch.optim.AdamW(stage.parameters())
    steps = pipeline.PlannedSteps(engine, job, sampler, read)
    pipeline.Trainer(engine, optimizer, steps, "runs/mine").train(1000)

or, in a loop of one's own:

    result = engine.step(plan, documents)   # token ids by sequence of the plan; result.loss
    engine.update(optimizer, max_norm=1.0)
"""

from slimpack.torch.pipeline.checkpoints import Checkpoints
from slimpack.torch.pipeline.compiling import compile_layers
from slimpack.torch.pipeline.engine import Engine, StepResult
from slimpack.torch.pipeline.failure import RanksFailed, RunFailed
from slimpack.torch.pipeline.launch import launch
from slimpack.torch.pipeline.local import LocalEngine
from slimpack.torch.pipeline.stage import Stage
from slimpack.torch.pipeline.steps import PlannedStep, PlannedSteps, StepSampler, read_from
from slimpack.torch.pipeline.trainer import Trainer
from slimpack.torch.pipeline.wide_adamw import WideAdamW

__all__ = ["Checkpoints", "Engine", "LocalEngine", "PlannedStep", "PlannedSteps", "RanksFailed",
           "RunFailed", "Stage", "StepResult", "StepSampler", "Trainer", "WideAdamW",
           "compile_layers", "launch", "read_from"]
