#!/usr/bin/env python3
"""Trains a causal language model of Hugging Face's transformers, its own code unchanged, by
SlimPack's plans.

    slimpack data build --from ~/src --glob '*.py' --out runs/mine/corpus
    torchrun --nproc-per-node 2 examples/train_any_model.py runs/mine/corpus \\
        --model models/demo.json --stages 2 --output runs/any

--model is a config.json, whose model begins with random weights, or a folder or a name on the Hub,
whose weights are trained on. Processes = stages × replicas. The first start measures the model's
layers for some seconds, so that steps are planned, and what backward computes again is chosen, with
what they take here. Ctrl-C or SIGTERM saves and ends it; started again with --resume, it goes on.
runs/any/model loads with from_pretrained. With --lora-rank the model is frozen and an adapter of PEFT
trains, which is in runs/any/adapter; runs/any/model has it merged.
"""

import argparse
import contextlib
from pathlib import Path

import slimpack
import slimpack.torch
import torch
import torch.distributed as dist
from slimpack.torch import pipeline
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", help="PREFIX of PREFIX.bin and PREFIX.idx")
    parser.add_argument("--model", required=True, help="config.json, a folder, or a Hub name")
    parser.add_argument("--output", required=True, help="of metrics, checkpoints and the model")
    parser.add_argument("--stages", type=int, default=2, help="pipeline stages")
    parser.add_argument("--context", type=int, default=2048, help="tokens of a sequence, at most")
    parser.add_argument("--step-tokens", type=int, default=8192, help="of a step, on all ranks")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--dtype", choices=DTYPES, default="fp32",
                        help="of the model; AdamW's states and gradients are fp32 (default: fp32)")
    parser.add_argument("--lora-rank", type=int, default=0, metavar="R",
                        help="train an adapter of this rank in all linear modules of the layers")
    parser.add_argument("--hardware", help="plan with the figures of this GPU, such as h100, "
                        "instead of measuring layers")
    parser.add_argument("--held-out", help="a dataset that is evaluated before and after")
    parser.add_argument("--shard", action="store_true", help="share weights out over replicas")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--log", default="", metavar="wandb|tensorboard",
                        help="where the metrics are shown while it trains")
    return parser.parse_args()


def job_of(config, replicas, options, target_share=1):
    """The job that steps are planned for: without --hardware, with the times that the layers take
    where this runs."""
    settings = dict(parallel={"pp": options.stages, "dp": replicas}, context=options.context,
                    dtype=options.dtype, target_share=target_share,
                    backward="whole", most_merged=1)
    if options.hardware:  # which knows other ways to compute again than this runtime
        return slimpack.Job(config, hardware=options.hardware, recompute="full",
                            adapter_rank=options.lora_rank or None, **settings)
    name = f"cost-{options.dtype}-lora-{options.lora_rank}" if options.lora_rank else f"cost-{options.dtype}"
    cost = slimpack.torch.profile(config, Path(options.output) / f"{name}.json", dtype=DTYPES[options.dtype],
                                  context=options.context, seconds=3, adapter=lora_of(options.lora_rank),
                                  progress=print if dist.get_rank() == 0 else None, keep=True)
    return slimpack.Job(config, cost=cost, **settings)


def lora_of(rank):
    """The configuration of an adapter; None without a rank."""
    if not rank:
        return None
    from peft import LoraConfig  # only adapters need it

    return LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM")


def stage_of(model, layer_begin, index, dtype, lora=None):
    """A stage on this process's device."""
    device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
    if not Path(model).is_file():
        stage = pipeline.Stage.from_pretrained(model, layer_begin, index, dtype=dtype, adapter=lora)
        return stage.to(device)
    torch.manual_seed(0)  # the same weights on all ranks
    whole = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(model), dtype=dtype)
    if lora is not None:
        from peft import get_peft_model

        whole = get_peft_model(whole, lora)
    return pipeline.Stage.from_model(whole, layer_begin, index).to(device)


def save_tokenizer(model, folder):
    """The tokenizer and chat template of a model, beside what was trained; nothing where it has none."""
    with contextlib.suppress(OSError, ValueError):
        AutoTokenizer.from_pretrained(model).save_pretrained(folder)


def main():
    options = parse()
    rank, world = dist.get_rank(), dist.get_world_size()
    if world % options.stages:
        raise slimpack.InvalidInput(
            f"{world} processes are no whole replicas of {options.stages} stages; start a multiple "
            f"of them (torchrun --nproc-per-node {options.stages}), or give other --stages")
    replicas = world // options.stages
    config = AutoConfig.from_pretrained(options.model)
    Path(options.output).mkdir(parents=True, exist_ok=True)
    dataset = slimpack.IndexedDataset.open(options.dataset)
    job = job_of(config, replicas, options, dataset.target_share())
    sampler = pipeline.StepSampler(dataset.lengths(), context=options.context,
                                   step_tokens=options.step_tokens)
    layer_begin = job.stages_for(sampler.peek())
    stage = stage_of(options.model, layer_begin, rank % options.stages, DTYPES[options.dtype],
                     lora_of(options.lora_rank))
    engine = pipeline.Engine(stage, shard_replicas=options.shard)
    optimizer = pipeline.WideAdamW(stage.parameters(), lr=options.learning_rate)
    steps = pipeline.PlannedSteps(engine, job, sampler, dataset.read)
    held_out = None
    if options.held_out:
        others = slimpack.IndexedDataset.open(options.held_out)
        held_out = others.lengths(), others.read
    trainer = pipeline.Trainer(engine, optimizer, steps, options.output, resume=options.resume, log=options.log,
                               held_out=held_out)
    trainer.train(options.steps)
    if options.lora_rank:
        engine.save_pretrained(Path(options.output) / "adapter")
    engine.save_pretrained(Path(options.output) / "model", merged=True)
    if rank == 0 and not Path(options.model).is_file():
        save_tokenizer(options.model, Path(options.output) / "model")


if __name__ == "__main__":
    pipeline.launch(main)
