"""A rank of trainers on uneven documents: `python trainer_ranks.py FOLDER` runs all CASES, one after the other.

FOLDER/CASE-RANK.pt then has what this rank trained, the losses, what evaluations found and the weights.
"""

import sys
from pathlib import Path

import torch
from slimpack.torch import SlimPackMixin, SlimPackTrainer
from uneven import LENGTHS, Notes, arguments, documents, logged, tiny_model, train_in_fp64

# By case: lengths of the documents to train on, those to evaluate on, and settings.
CASES = {
    "uneven": (LENGTHS, [9, 30, 2, 4, 17], {}),
    "strict cap": (LENGTHS, [9, 30], {"max_tokens": 40}),
    "one document": ([7], [7], {}),
    "one long among short": ([60, 2, 2, 2, 2, 2, 2, 2], [3, 2, 2], {"max_tokens": 60}),
    "without targets": ([1, 1, 1], [4], {}),
    "in slices": ([40, 3, 33, 2, 9, 31], [30, 4], {"max_slice_tokens": 8, "max_tokens": 16}),
    "one at a time": (LENGTHS[:5], [5, 6, 7], {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 1}),
}
KINDS = ["Trainer", "SFTTrainer"]
RESUMED = ["uneven", "one at a time", "in slices"]


def checksum(prediction):
    """Metrics that other rows, or another order of them, change."""
    targets = (prediction.label_ids != -100).sum(-1)
    return {"rows": len(targets), "targets": sum((row + 1) * int(count) for row, count in enumerate(targets))}


def make(kind, folder, rows, held_out, max_tokens=None, max_slice_tokens=None, **changes):
    """A trainer of a kind, which notes what it trains."""
    changes = {"ddp_backend": "gloo", **changes}
    if kind == "Trainer":
        class Trainer(Notes, SlimPackTrainer):
            pass
        return Trainer(tiny_model(), arguments(folder, **changes), train_dataset=rows, eval_dataset=held_out,
                       max_tokens=max_tokens, max_slice_tokens=max_slice_tokens,
                       compute_metrics=None if max_slice_tokens else checksum)
    import datasets
    from sft import tokenizer
    from trl import SFTConfig, SFTTrainer

    class Trainer(Notes, SlimPackMixin, SFTTrainer):
        pass
    args = arguments(folder, SFTConfig, max_length=None, shuffle_dataset=False, **changes)
    return Trainer(tiny_model(), args, train_dataset=datasets.Dataset.from_list(rows),
                   eval_dataset=datasets.Dataset.from_list(held_out), processing_class=tokenizer(folder),
                   max_tokens=max_tokens, max_slice_tokens=max_slice_tokens)


def resumed(kind, folder, case):
    """The weights of a run, and of another one that goes on from its second step."""
    lengths, held_out, settings = CASES[case]
    rows, held_out = documents(lengths), documents(held_out, seed=1)
    whole = make(kind, folder / kind / case, rows, held_out, **settings, save_strategy="steps", save_steps=2)
    whole.train()
    again = make(kind, folder / kind / case, rows, held_out, **settings)
    again.train(resume_from_checkpoint=str(folder / kind / case / "checkpoint-2"))
    return whole.model.state_dict(), again.model.state_dict()


def main():
    folder = Path(sys.argv[1])
    for kind in KINDS:
        for case, (lengths, held_out, settings) in CASES.items():
            trainer = make(kind, folder, documents(lengths), documents(held_out, seed=1), **settings)
            losses = train_in_fp64(trainer)
            found = {"trained": trainer.trained, "losses": losses, "evaluated": trainer.evaluate(),
                     "micro-batches": [len(step["micro_batches"]) for step in trainer.get_train_dataloader()],
                     "weights": trainer.model.state_dict(), "resumed": case in RESUMED and resumed(kind, folder, case)}
            torch.save(found, folder / f"{kind} {case} {trainer.args.process_index}.pt")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
