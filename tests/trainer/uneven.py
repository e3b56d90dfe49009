"""Uneven documents, a tiny model, and training on them one document at a time."""

import numpy as np
import torch
from slimpack.labelled import IGNORED
from slimpack.torch import SlimPackTrainer
from slimpack.torch.pipeline.comparison import Fp64Casts
from transformers import LlamaConfig, LlamaForCausalLM, TrainingArguments

LENGTHS = [40, 3, 17, 2, 9, 31, 25, 5, 12, 1, 28, 7, 6]


def documents(lengths=LENGTHS, vocabulary=64, seed=0):
    """Dicts of token ids and labels, about half of which are targets. Of several the last one has none."""
    random = np.random.default_rng(seed)
    made = []
    for length in lengths:
        ids = random.integers(3, vocabulary, length)
        made.append({"input_ids": ids.tolist(), "labels": np.where(random.random(length) < 0.5, ids, IGNORED).tolist()})
    if len(lengths) > 1:
        made[-1]["labels"] = [IGNORED] * lengths[-1]
    return made


def tiny_model(seed=0, vocabulary=64):
    torch.manual_seed(seed)
    return LlamaForCausalLM(LlamaConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=vocabulary, max_position_embeddings=256, initializer_range=0.3, pad_token_id=0)).double()


def arguments(folder, kind=TrainingArguments, **changes):
    return kind(str(folder), **{
        "num_train_epochs": 2, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 2,
        "save_strategy": "no", "report_to": [], "use_cpu": True, "learning_rate": 1e-2, "disable_tqdm": True,
        "logging_steps": 1, "bf16": False, "seed": 5, **changes})


class Notes:
    """Before a trainer with SlimPackMixin: `trained` has the token ids of the documents of every step."""

    def __init__(self, *args, **kwargs):
        self.trained = []
        super().__init__(*args, **kwargs)

    def training_step(self, model, inputs, num_items_in_batch=None):
        found = []
        for batch in inputs["micro_batches"] + inputs["long"]:
            bounds = batch["cu_seq_lens_q"].tolist()
            found += [batch["input_ids"][0, begin:end].tolist() for begin, end in zip(bounds, bounds[1:], strict=False)]
        self.trained.append([ids for ids in found if ids != [0]])  # no document: documents() gives no token 0
        return super().training_step(model, inputs, num_items_in_batch)


class Noted(Notes, SlimPackTrainer):
    pass


def named(rows, trained):
    """The rows of each step, by their token ids."""
    known = {tuple(row["input_ids"]): row for row in rows}
    return [[known[tuple(ids)] for ids in step] for step in trained]


def losses_of(model, rows):
    """The sum of the losses of a document, for each."""
    for row in rows:
        ids, labels = torch.tensor([row["input_ids"]]), torch.tensor([row["labels"]])
        with Fp64Casts():
            logits = model(input_ids=ids).logits[0, :-1]
            yield torch.nn.functional.cross_entropy(logits, labels[0, 1:], reduction="sum")


def targets_of(rows):
    return sum(label != IGNORED for row in rows for label in row["labels"][1:])


def mean_loss(model, rows):
    """The mean over all targets, one document at a time."""
    with torch.no_grad():
        return sum(loss.item() for loss in losses_of(model, rows)) / targets_of(rows)


def plain_losses(model, steps, args):
    """Trains on lists of documents, one document at a time. Returns the losses of the steps."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=args.learning_rate, weight_decay=args.weight_decay,
                                  betas=(args.adam_beta1, args.adam_beta2), eps=args.adam_epsilon)
    losses = []
    for number, step in enumerate(steps):
        for group in optimizer.param_groups:
            group["lr"] = args.learning_rate * (1 - number / len(steps))  # Trainer's default schedule
        total = 0.0
        for loss in losses_of(model, step):
            (loss / max(targets_of(step), 1)).backward()
            total += loss.item() / max(targets_of(step), 1)
        torch.nn.utils.clip_grad_norm_(trained, args.max_grad_norm)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
    return losses


def logged(trainer, name="loss"):
    return [entry[name] for entry in trainer.state.log_history if name in entry]


def train_in_fp64(trainer, **options):
    """Trainer's losses of the steps. Casts to fp32 in the code of models become casts to fp64."""
    with Fp64Casts():
        trainer.train(**options)
    return logged(trainer)


def largest_difference(model, other):
    """The largest one of the weights of two models."""
    pairs = zip(model.parameters(), other.parameters(), strict=True)
    return max((ours - theirs).abs().max().item() for ours, theirs in pairs)
