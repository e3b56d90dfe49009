"""Runs on each rank of a job: a step of a bf16 model that keeps some parameters in fp32."""

import random
from typing import NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from pipeline_worker import close
from replicated_ranks import REPLICATION, whole
from slimpack.torch import pipeline
from slimpack.torch.pipeline.random_plan import random_plan

STAGES, REPLICAS, LAYER_BEGIN = 2, 2, [0, 2, 4]


class Found(NamedTuple):
    """loss, norm: of the step. gradients: by name, as fp32; weights: likewise, after an update.
    wide: names of this rank's fp32 parameters."""

    loss: float
    norm: float
    gradients: dict[str, np.ndarray]
    weights: dict[str, np.ndarray]
    wide: set[str]


def plan_and_documents():
    lengths = [40, 3, 17, 60, 1, 25]
    documents = [torch.arange(7 * n, 8 * n) % 90 + 3 for n in lengths]
    return random_plan(lengths, LAYER_BEGIN, random.Random(5), replicas=REPLICAS), documents


def step(folder, replication):
    """This rank's Found with the model in a folder."""
    stage = pipeline.Stage.from_pretrained(folder, LAYER_BEGIN, dist.get_rank() % STAGES,
                                           dtype=torch.bfloat16, check=False)
    assert stage.dtype == torch.bfloat16
    wide = {name for name, p in stage.model.named_parameters() if p.dtype == torch.float32}
    engine = pipeline.Engine(stage, **REPLICATION[replication])
    optimizer = pipeline.WideAdamW(stage.parameters(), lr=1e-2)
    loss = engine.step(*plan_and_documents()).loss
    norm = engine.clip_grad_norm(float("inf"))
    gradients = {name: whole(p.grad).float().numpy().copy()
                 for name, p in stage.model.named_parameters() if p.grad is not None}
    optimizer.step()
    weights = {name: whole(p.detach()).float().numpy().copy()
               for name, p in stage.model.named_parameters()}
    close(engine)
    return Found(loss, norm, gradients, weights, wide)
