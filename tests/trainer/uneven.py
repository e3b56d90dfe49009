"""Uneven documents, a tiny model, and training on them one document at a time."""

import numpy as np
import torch
from slimpack.labelled import IGNORED
from slimpack.torch.pipeline.comparison import Fp64Casts
from transformers import LlamaConfig, LlamaForCausalLM, TrainingArguments

LENGTHS = [40, 3, 17, 2, 9, 31, 25, 5, 12, 1, 28, 7, 6]


def documents(lengths=LENGTHS, vocabulary=64, seed=0):
    """Dicts of token ids and labels, about half of which are targets; the last document has none."""
    random = np.random.default_rng(seed)
    made = []
    for length in lengths:
        ids = random.integers(0, vocabulary, length)
        made.append({"input_ids": ids.tolist(), "labels": np.where(random.random(length) < 0.5, ids, IGNORED).tolist()})
    made[-1]["labels"] = [IGNORED] * lengths[-1]
    return made


def tiny_model(seed=0):
    torch.manual_seed(seed)
    return LlamaForCausalLM(LlamaConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=64, max_position_embeddings=256, initializer_range=0.3, pad_token_id=0)).double()


def arguments(folder, kind=TrainingArguments, **changes):
    return kind(str(folder), **{
        "num_train_epochs": 2, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 2,
        "save_strategy": "no", "report_to": [], "use_cpu": True, "learning_rate": 1e-2, "disable_tqdm": True,
        "logging_steps": 1, "bf16": False, "seed": 5, **changes})


def plain_losses(model, steps, args):
    """Trains on lists of documents, one document at a time. Returns the losses of the steps."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, weight_decay=args.weight_decay,
                                  betas=(args.adam_beta1, args.adam_beta2), eps=args.adam_epsilon)
    losses = []
    for number, step in enumerate(steps):
        for group in optimizer.param_groups:
            group["lr"] = args.learning_rate * (1 - number / len(steps))  # Trainer's default schedule
        targets = max(sum(label != IGNORED for document in step for label in document["labels"][1:]), 1)
        total = 0.0
        for document in step:
            ids, labels = torch.tensor([document["input_ids"]]), torch.tensor([document["labels"]])
            with Fp64Casts():
                logits = model(input_ids=ids).logits[0, :-1]
                loss = torch.nn.functional.cross_entropy(logits, labels[0, 1:], reduction="sum") / targets
                loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.max_grad_norm)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
    return losses


def train_in_fp64(trainer, **options):
    """Trainer's losses of the steps. Casts to fp32 in the code of models become casts to fp64."""
    with Fp64Casts():
        trainer.train(**options)
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def largest_difference(model, other):
    """The largest one of the weights of two models."""
    pairs = zip(model.parameters(), other.parameters(), strict=True)
    return max((ours - theirs).abs().max().item() for ours, theirs in pairs)
