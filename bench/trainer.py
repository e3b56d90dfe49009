#!/usr/bin/env python3
"""TRL's SFTTrainer on uneven documents: with SlimPackMixin, and in its own modes packing=True and
padding_free=True, in turn, on two processes over Gloo.

    .venv/bin/python bench/trainer.py                     # 10 minutes
    .venv/bin/python bench/trainer.py --documents 128 --of-a-step 32 --turns 1 --json FILE

All train the same Llama shape, weights and documents, whose lengths are lognormal, with sdpa, the best attention
that transformers has on CPUs. Every mode is tuned first: packing over the length of its packs (from the longest
document on, so that no token is lost), padding_free over documents of a batch, and over Trainer's
'batch_rebalance', which deals batches out by their cost. Steps have as many documents, or packs of as many
tokens. The time of a step is the processor time of its slower process, as if each had a core of its own; the
first step of a run does not count. Prints medians over the turns.
"""

import argparse
import json
import logging
import os
import socket
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":  # before torch: processes that this one starts inherit it
    build = os.environ.get("SLIMPACK_BUILD", str(ROOT / "build" / "release")) + "/python"
    os.environ["PYTHONPATH"] = os.pathsep.join([build, *sys.path])
    sys.path.insert(0, build)

import datasets
import numpy as np
import torch
import torch.distributed as dist
from slimpack.torch import SlimPackMixin
from tokenizers import Tokenizer, models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, PrinterCallback, TrainerCallback
from transformers.utils import logging as transformers_logging
from trl import SFTConfig, SFTTrainer

RANKS = 2
WORDS = 2048


class Way(NamedTuple):
    """A mode with its settings. rows: documents of a batch, or tokens of a pack."""

    mode: str
    rows: int
    strategy: str = "random"

    def __str__(self):
        unit = {"slimpack": "tokens a micro-batch", "packing": "tokens a pack"}.get(self.mode, "documents a batch")
        rebalanced = "" if self.strategy == "random" else ", rebalanced"
        return f"{self.mode}, {self.rows:,} {unit}{rebalanced}"


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=64)
    parser.add_argument("--of-a-step", type=int, default=16, help="documents of a step, on both processes")
    parser.add_argument("--longest", type=int, default=4096, help="tokens; longer lengths become these")
    parser.add_argument("--mean", type=float, default=5.3, help="mean logarithm of the lengths")
    parser.add_argument("--deviation", type=float, default=1.1, help="its standard deviation")
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    if options.documents <= options.of_a_step or options.of_a_step % RANKS:
        parser.error("--documents must be more than --of-a-step, which must be even")
    return options


def lengths_of(options):
    random = np.random.default_rng(options.seed)
    return np.clip(random.lognormal(options.mean, options.deviation, options.documents).astype(int), 2, options.longest)


def ways_of(options, longest):
    """By mode the settings to choose from."""
    of_a_rank = options.of_a_step // RANKS
    batches = sorted({1, max(of_a_rank // 4, 1), of_a_rank})
    return {"slimpack": [Way("slimpack", longest), Way("slimpack", 2 * longest)],
            "packing": [Way("packing", longest), Way("packing", 2 * longest)],
            "padding_free": [Way("padding_free", batch) for batch in batches],
            "padding_free, rebalanced": [Way("padding_free", batch, "batch_rebalance") for batch in batches]}


class Clock(TrainerCallback):
    """Processor seconds of this process and the tokens of all, by step from the second one on."""

    def __init__(self):
        self.seconds, self.wall, self.tokens, self.trainer = [], [], [], None

    def on_step_end(self, args, state, control, **_):
        now = time.process_time(), time.monotonic(), self.trainer._total_train_tokens
        if state.global_step > 1:
            for values, end, begin in zip((self.seconds, self.wall, self.tokens), now, self.last, strict=True):
                values.append(end - begin)
        self.last = now


class Packed(SlimPackMixin, SFTTrainer):
    """SFTTrainer with SlimPackMixin."""


def arguments_of(way, options, step_tokens, folder):
    of_a_rank = options.of_a_step // RANKS
    common = {"num_train_epochs": 1, "report_to": [], "use_cpu": True, "bf16": False, "disable_tqdm": True,
              "save_strategy": "no", "logging_strategy": "no", "gradient_checkpointing": False, "ddp_backend": "gloo",
              "ddp_find_unused_parameters": False, "seed": options.seed}
    if way.mode == "packing":
        own = {"packing": True, "max_length": way.rows, "per_device_train_batch_size": 1,
               "gradient_accumulation_steps": max(round(step_tokens / RANKS / way.rows), 1)}
    else:
        batch = of_a_rank if way.mode == "slimpack" else way.rows
        own = {"max_length": None, "padding_free": way.mode == "padding_free", "per_device_train_batch_size": batch,
               "gradient_accumulation_steps": of_a_rank // batch, "train_sampling_strategy": way.strategy}
    return SFTConfig(str(folder), **common, **own)


def run(way, options, rows, tokenizer, folder):
    """(processor seconds, seconds on the clock, tokens) of an epoch but its first step."""
    torch.manual_seed(options.seed)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=WORDS, hidden_size=options.hidden, intermediate_size=options.hidden * 11 // 4, num_hidden_layers=4,
        num_attention_heads=options.hidden // 64, num_key_value_heads=options.hidden // 64,
        max_position_embeddings=2 * options.longest, pad_token_id=0))
    clock, step_tokens = Clock(), sum(map(len, rows["input_ids"])) * options.of_a_step / len(rows)
    kind = Packed if way.mode == "slimpack" else SFTTrainer
    trainer = kind(model, arguments_of(way, options, step_tokens, folder), train_dataset=rows, processing_class=tokenizer,
                   callbacks=[clock], **({"max_tokens": way.rows} if way.mode == "slimpack" else {}))
    clock.trainer = trainer
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    took = torch.tensor([clock.seconds, clock.wall])
    dist.all_reduce(took, dist.ReduceOp.MAX)
    return *took.sum(1).tolist(), sum(clock.tokens), len(clock.tokens)


def say(text):
    if dist.get_rank() == 0:
        print(text, file=sys.stderr, flush=True)


def figures_of(options, folder):
    """Chooses the best settings of each mode, then runs these in turn."""
    lengths = lengths_of(options)
    random = np.random.default_rng(options.seed + 1)
    rows = datasets.Dataset.from_dict({"input_ids": [random.integers(3, WORDS, length).tolist() for length in lengths]})
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel({f"w{word}": word for word in range(WORDS)}, unk_token="w0")),
        pad_token="w0", eos_token="w1")
    took = {}

    def measure(mode, way, title):
        seconds, wall, tokens, steps = run(way, options, rows, tokenizer, folder)
        took.setdefault((mode, way), []).append((seconds / tokens, wall / tokens))
        say(f"{title}: {way}: {1e3 * seconds / tokens:.3f} ms a token, {steps} steps of {tokens // steps:,} tokens")

    ways = ways_of(options, int(lengths.max()))
    for mode, choices in ways.items():
        for way in choices:
            measure(mode, way, "tuning")
    best = {mode: min(choices, key=lambda way: took[mode, way][0]) for mode, choices in ways.items()}
    tuning = {mode: {str(way): took[mode, way][0][0] for way in choices} for mode, choices in ways.items()}
    took.clear()
    for turn in range(options.turns):
        for mode, way in best.items():
            measure(mode, way, f"turn {turn + 1} of {options.turns}")
    return {"documents": len(lengths), "tokens": int(lengths.sum()), "longest": int(lengths.max()),
            "of_a_step": options.of_a_step, "hidden": options.hidden, "tuning": tuning, "modes": {
                mode: {"settings": str(way), "seconds_a_token": [of_turn[0] for of_turn in took[mode, way]],
                       "on_the_clock": [of_turn[1] for of_turn in took[mode, way]]} for mode, way in best.items()}}


def show(figures):
    modes = figures["modes"]
    print(f"{figures['documents']} documents, {figures['tokens']:,} tokens, the longest {figures['longest']:,}; "
          f"{figures['of_a_step']} in a step\n")
    print(f"{'mode':24}  {'ms a token':>10}  {'spread':>11}  {'÷ ours':>8}  settings")
    ours = modes["slimpack"]["seconds_a_token"]
    for mode, found in modes.items():
        times = [1e3 * seconds for seconds in found["seconds_a_token"]]
        ratio = statistics.median(theirs / own for theirs, own in zip(found["seconds_a_token"], ours, strict=True))
        settings = found["settings"].removeprefix(f"{mode}, ").removeprefix("padding_free, ").removesuffix(", rebalanced")
        short = settings.replace("tokens a micro-batch", "tokens").replace("tokens a pack", "tokens")
        print(f"{mode:24}  {statistics.median(times):10.3f}  {min(times):.3f}–{max(times):.3f}  {ratio:7.2f}×  "
              f"{short.replace('documents a batch', 'documents')}")


def work(rank, options, folder, port):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    transformers_logging.set_verbosity_error()
    datasets.disable_progress_bars()
    dist.init_process_group("gloo")
    figures = figures_of(options, folder)
    if rank == 0:
        show(figures)
        if options.json:
            options.json.write_text(json.dumps(figures, indent=2))
    dist.destroy_process_group()


def main():
    options = parse()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(work, (options, folder, port), RANKS)


if __name__ == "__main__":
    main()
