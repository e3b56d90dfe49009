"""Runs on each rank of a job: training of adapters, against PEFT's own, and their checkpoints and
folders."""

import gc

import torch
import torch.distributed as dist
from adapted import adapted, lora
from families import config_of, model_of
from peft import get_peft_model
from replicated_ranks import LAYERS, REPLICATION, STAGES, steps_of, trained, whole
from slimpack.torch import pipeline
from slimpack.torch.pipeline.comparison import Fp64Casts
from training_ranks import trainer_of

LAYER_BEGIN, SEED = [0, 1, LAYERS], 3
NONE = {}  # settings of an adapter beyond the usual


def differences(cases, seed, max_norm, replication):
    """By case what this rank Found; cases: (family, kind of the plans, settings of the adapter)."""
    return [trained(lambda of=family, s=settings: adapted(of, seed, **s), kind, seed, max_norm, replication)
            for family, kind, settings in cases]


def train(output, stages, until, replication="whole", dtype=torch.float64, resume=False, settings=NONE):
    """Trains an adapter, or without settings the model. Returns this rank's weights of it, by name."""
    trainer = trainer_of(output, stages, replication, dtype=dtype, resume=resume, lora=settings)
    trainer.train(until)
    found = {name: whole(p.detach()).double().numpy().copy()
             for name, p in trainer.engine.stage.stored_parameters().items()}
    del trainer
    gc.collect()  # the next run in this process may use the folder
    return found


def save(folder, family, replication, settings):
    """Trains the adapter that stages of the bf16 model in folder/base get, and writes it and the merged
    model. Returns (loss, whether the base weights stayed)."""
    stage = pipeline.Stage.from_pretrained(folder / "base", LAYER_BEGIN, dist.get_rank() % STAGES,
                                           check=False, adapter=lora(family, **settings), adapter_seed=3)
    assert stage.dtype == torch.bfloat16
    before = frozen(stage)
    engine = pipeline.Engine(stage, **REPLICATION[replication])
    optimizer = pipeline.WideAdamW(stage.parameters(), lr=0.1)
    for plan, documents in steps_of(SEED, dist.get_world_size() // STAGES):
        engine.step(plan, documents)
        engine.update(optimizer, 1.0)
    loss = engine.evaluate(plan, documents).loss
    engine.save_pretrained(folder / "adapter")
    engine.save_pretrained(folder / "merged", merged=True)
    after = frozen(stage)
    same = all(torch.equal(before[name], after[name]) for name in before)
    return loss, same and before.keys() == after.keys()


def frozen(stage):
    return {name: whole(p.detach()).clone() for name, p in stage.model.named_parameters()
            if not p.requires_grad}


def begin_differently():
    """Makes an engine of a model whose adapter every rank draws by itself."""
    torch.manual_seed(dist.get_rank())
    model = get_peft_model(model_of(config_of("llama"), 1), lora("llama"))
    torch.manual_seed(dist.get_rank())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_A" in name:
                parameter.normal_()
    pipeline.Engine(pipeline.Stage.from_model(model, LAYER_BEGIN, dist.get_rank() % STAGES, check=False))


def reference(replication):
    """On this rank: (log-probabilities of a step's documents without the adapter, with it, with it after
    them), and the names of what trains before and after."""
    plan, documents = next(iter(steps_of(SEED, dist.get_world_size() // STAGES)))
    stage = pipeline.Stage.from_model(adapted("llama", SEED), LAYER_BEGIN, dist.get_rank() % STAGES, check=False)
    engine = pipeline.Engine(stage, **REPLICATION[replication])
    trained = [{name for name, p in stage.named_parameters() if p.requires_grad}]
    with Fp64Casts():
        found = [engine.logprobs(plan, documents, adapter=adapter) for adapter in (True, False, True)]
    trained.append({name for name, p in stage.named_parameters() if p.requires_grad})
    return [[one.numpy() for one in of] for of in found], trained
