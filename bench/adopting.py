#!/usr/bin/env python3
"""The worth of each depth of adopting SlimPack, in simulated seconds of one step
(docs/adopting.md).

Two jobs train the same real documents at a context of 131,072 on H100s: one without a pipeline, one
with. Prints the comparison of each job, the step of the micro-batches that the export to
Megatron-Core makes, under plain 1F1B, and the step that the export to torch.distributed.pipelining
takes, with one partition for both passes.

    .venv/bin/python bench/adopting.py bench/data/wlbllm_lengths.txt
"""

import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONTEXT = 131072
JOBS = {"8 replicas × tp 8": {"dp": 8, "tp": 8}, "pp 4 × dp 4 × tp 8": {"pp": 4, "dp": 4, "tp": 8}}
PLANNERS = ["slimpack", "concatenated", "best-fit", "balanced", "seq1f1b", "slimpipe"]


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lengths", type=Path, help="documents: one length a line")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--documents", type=int, default=1024,
                        help="documents of the step, the first ones")
    return parser.parse_args()


def one_f_one_b(stages, micro_batches):
    """Plain 1F1B, a line for each stage."""
    lines = []
    for stage in range(stages):
        ahead = min(stages - stage - 1, micro_batches)
        actions = [f"{stage}F{k}" for k in range(ahead)]
        for k in range(micro_batches):
            actions += [f"{stage}F{k + ahead}"] if k + ahead < micro_batches else []
            actions.append(f"{stage}B{k}")
        lines.append(",".join(actions))
    return "\n".join(lines) + "\n"


def with_micro_batches(step, groups):
    """The step as if planned with these [micro-batch][replica] of sequences."""
    document = json.loads(step.to_json())
    for replica, plan in enumerate(document["plan"]["replicas"]):
        packs = [[[i, 0, int(step.lengths[i])] for i in at_once[replica]] for at_once in groups]
        plan.update(sequences=sorted(i for pack in packs for i, _, _ in pack),
                    forward=packs, backward=packs)
        document["schedules"][replica] = one_f_one_b(step.stages, len(groups))
    return type(step).from_json(json.dumps(document))


def padding_of(step, torch_pipelining):
    """The share of padding in what torch computes, which has micro-batches of one size."""
    computed = 0
    for replica in range(len(step.replicas)):
        sizes = [sum(end - begin for _, begin, end in parts)
                 for parts in torch_pipelining.micro_batches(step, replica)]
        computed += len(sizes) * max(sizes)
    return 1 - step.lengths.sum() / computed


def main():
    arguments = parse()
    sys.path.insert(0, str(arguments.build / "python"))
    import slimpack
    from slimpack.export import torch_pipelining
    from slimpack.export.megatron import SlimPackScheduler

    model = json.loads((ROOT / "models" / "llama-3-8b.json").read_text())
    model["max_position_embeddings"] = CONTEXT
    lengths = slimpack.split_documents(slimpack.read_lengths(arguments.lengths), CONTEXT)
    lengths = lengths[:arguments.documents]
    for name, parallel in JOBS.items():
        job = slimpack.Job(model, parallel, "h100", context=CONTEXT)
        packed, symmetric = (
            slimpack.plan(lengths, model, parallel, "h100", context=CONTEXT, **options)
            for options in ({"planner": "packed"}, {"cuts": "symmetric", "most_merged": 1}))
        scheduler = SlimPackScheduler(CONTEXT, 1, parallel["dp"], cost=job)
        groups = scheduler.get_groups_and_subsamples(list(enumerate(lengths.tolist())))
        step = with_micro_batches(packed, groups)
        print(f"{name}: {lengths.sum():,} tokens of {len(lengths):,} documents\n")
        print(job.compare(lengths, planners=PLANNERS))
        print(f"exported to Megatron-Core: {step.makespan:.2f} s in {len(groups)} micro-batches, "
              f"bubble {step.bubble_ratio:.1%}, "
              f"peak {step.peak_activation_bytes.max() / 2**30:.1f} GiB")
        print(f"one partition for both passes: {symmetric.makespan:.2f} s, padding "
              f"{padding_of(symmetric, torch_pipelining):.1%}, packed "
              f"{padding_of(packed, torch_pipelining):.1%}\n")


if __name__ == "__main__":
    main()
