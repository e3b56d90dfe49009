"""A rank of a transformers.Trainer run on documents whose tokens are their own numbers.

    python trainer_rank.py FOLDER DOCUMENTS GRADIENT_ACCUMULATION_STEPS

It has two epochs; FOLDER/RANK.json then holds the documents of every micro-batch and the losses.
"""

import json
import os
import sys
from pathlib import Path

import torch
from slimpack.torch import PackedDataLoader, SlimPackSampler
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


def tiny_model():
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
        vocab_size=64, max_position_embeddings=256, tie_word_embeddings=False)).double()


def arguments(folder, **changes):
    return TrainingArguments(str(folder), **{
        "num_train_epochs": 2, "gradient_accumulation_steps": 4, "save_strategy": "no", "report_to": [],
        "use_cpu": True, "learning_rate": 1e-3, "disable_tqdm": True, "logging_steps": 1, **changes})


class PackedTrainer(Trainer):
    """The trainer of docs/python.md, which notes what it trains."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.trained = []

    def get_train_dataloader(self):
        sampler = SlimPackSampler([len(d["input_ids"]) for d in self.train_dataset], 64,
                                  micro_batches=self.args.gradient_accumulation_steps)
        return PackedDataLoader(self.train_dataset, sampler, num_workers=self.args.dataloader_num_workers)

    def training_step(self, model, inputs, *rest):
        targets = inputs["input_ids"][inputs["labels"] != -100]
        self.trained.append(sorted(set(targets.tolist())))
        return super().training_step(model, inputs, *rest)


def numbered(lengths):
    return [{"input_ids": torch.full((int(n),), i)} for i, n in enumerate(lengths)]


def main():
    folder, count, steps = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    documents = numbered([40 + i % 20 for i in range(count)])
    trainer = PackedTrainer(tiny_model(), arguments(folder, gradient_accumulation_steps=steps, ddp_backend="gloo"),
                            train_dataset=documents)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    (folder / f"{os.environ['RANK']}.json").write_text(json.dumps({"trained": trainer.trained, "losses": losses}))


if __name__ == "__main__":
    main()
