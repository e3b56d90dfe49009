"""Runs SlimPack's plans on Hugging Face causal decoders, their own code unchanged, over c10d
processes.

    from slimpack.torch import pipeline

    torch.distributed.init_process_group()
    stage = pipeline.Stage.from_model(model, plan.layer_begin, rank % stages)
    engine = pipeline.Engine(stage)
    optimizer = torch.optim.AdamW(stage.parameters())
    result = engine.step(plan, documents)   # token ids by sequence of the plan; result.loss
    engine.clip_grad_norm(1.0)
    optimizer.step()
    optimizer.zero_grad()
"""

from slimpack.torch.pipeline.engine import Engine, StepResult
from slimpack.torch.pipeline.failure import RanksFailed
from slimpack.torch.pipeline.local import LocalEngine
from slimpack.torch.pipeline.stage import Stage

__all__ = ["Engine", "LocalEngine", "RanksFailed", "Stage", "StepResult"]
