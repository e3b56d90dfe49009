#!/usr/bin/env python3
"""One training step of real documents on two processes over Gloo: slimpack.torch.pipeline beside
torch.distributed.pipelining, in turn. Both train the same Hugging Face model, weights and
documents, with full recomputation.

    .venv/bin/python bench/any_model.py                  # Llama, as bench/end_to_end; over an hour
    .venv/bin/python bench/any_model.py --model moe      # a small mixture of experts
    .venv/bin/python bench/any_model.py --model qwen3.5  # three of four layers hand on a state
    .venv/bin/python bench/any_model.py --rivals 1f1b,pad,desc 1f1b,bfd,given --turns 1

First it measures the model and plans from that. Then it looks for the rival's best schedule,
packing of whole documents and order, which takes most of the time: all of them on the beginnings of
the documents, the best ones on all of it. It does so twice: with the same recomputation, and
without that of the last stage. Then all ways run in turn. Prints medians, the prediction beside the
measurement, and the ratio by turn.
"""

import argparse
import copy
import json
import os
import statistics
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":  # before torch: processes that this one starts inherit it
    build = os.environ.get("SLIMPACK_BUILD", str(ROOT / "build" / "release")) + "/python"
    os.environ["PYTHONPATH"] = os.pathsep.join([build, *sys.path])
    sys.path.insert(0, build)

import slimpack
import torch
import torch.distributed as dist
from slimpack.torch import pipeline, profile
from slimpack.torch.profiling.live_bytes import CountedBytes
from torch_documents import Piece, build_batch, read_documents, take_step
from torch_pipelining import LOOPED, Pipeline, tune_malloc
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3MoeConfig, Qwen3_5TextConfig

RANKS = 2
CHOICES = {"schedule": ["1f1b", "interleaved", "zb", "gpipe", "bfs", "zbv", "dualpipev"],
           "packing": ["bfd", "balanced", "pad"],
           "order": ["given", "desc", "asc", "hill"]}
RECOMPUTE = ["all", "all-but-last"]  # the last stage's graph may wait for nothing else


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["llama", "moe", "qwen3.5"], default="llama")
    parser.add_argument("--context", type=int, default=16384)
    parser.add_argument("--step-tokens", type=int, default=65536)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0, help="which documents")
    parser.add_argument("--rivals", nargs=len(RECOMPUTE), metavar="SCHEDULE,PACKING,ORDER",
                        help="instead of looking; for each recomputation")
    parser.add_argument("--cost", type=Path, help="cost file; default: measured now")
    parser.add_argument("--json", type=Path, help="write the figures here")
    return parser.parse_args()


def config_of(options):
    """The shape of `step_model` in bench/real_steps.h; its feed-forward as eight experts, two for each token;
    or with gated delta nets in place of attention in three of four layers."""
    shape = dict(vocab_size=256, hidden_size=256, num_hidden_layers=4, num_attention_heads=8,
                 num_key_value_heads=4, head_dim=32, max_position_embeddings=options.context,
                 tie_word_embeddings=False)
    if options.model == "llama":
        return LlamaConfig(**shape, intermediate_size=704)
    if options.model == "qwen3.5":
        shape |= dict(num_attention_heads=4, num_key_value_heads=2, head_dim=64)
        return Qwen3_5TextConfig(**shape, intermediate_size=704, linear_num_key_heads=4,
                                 linear_num_value_heads=4, linear_key_head_dim=64,
                                 linear_value_head_dim=64)
    return Qwen3MoeConfig(**shape, moe_intermediate_size=352, num_experts=8, num_experts_per_tok=2)


def model_of(config, seed, attention):
    torch.manual_seed(seed)
    config = copy.deepcopy(config)
    config._attn_implementation = attention
    return AutoModelForCausalLM.from_config(config).train()


class Ours:
    """slimpack.torch.pipeline with a plan for this step."""

    def __init__(self, options, config, pieces, folder):
        cost = options.cost or profile(config, folder / "cost.json", context=options.context,
                                       seconds=60, progress=say)
        job = slimpack.Job(config, {"pp": RANKS}, cost=cost, dtype="fp32", recompute="full",
                           memory_cap="none", context=options.context)
        self.documents = [piece.tokens for piece in pieces]
        self.plan = job.plan([len(piece) for piece in pieces])
        model = model_of(config, options.seed, "sdpa")
        self.engine = pipeline.Engine(pipeline.Stage.from_model(model, self.plan.layer_begin))
        self.optimizer = torch.optim.AdamW(self.engine.stage.parameters(), fused=True)

    def step(self):
        return self.engine.step(self.plan, self.documents).loss

    def busy_seconds(self):
        """By rank, of its passes of the last step."""
        spans = json.loads(self.engine.timeline())["spans"]
        return [sum(end - begin for of_rank, kind, _, begin, end in spans
                    if of_rank == rank and kind in ("forward", "backward")) / 1e9
                for rank in range(RANKS)]


class Rival:
    """torch.distributed.pipelining with one choice of CHOICES."""

    def __init__(self, options, config, pieces, choice):
        self.choice = choice
        settings = argparse.Namespace(**choice, stages_per_rank=2,
                                      pack_len=options.context, looped=choice["schedule"] in LOOPED)
        model = model_of(config, options.seed, "document_attention")
        self.batch = build_batch(pieces, settings)
        self.pipeline = Pipeline(settings, model, dist.get_rank(), RANKS)
        self.optimizer = torch.optim.AdamW(self.pipeline.parameters(), fused=True)

    def step(self):
        loss = torch.tensor(self.pipeline.step(self.batch), dtype=torch.float64)
        dist.all_reduce(loss)
        return loss.item()


def timed(way):
    """(seconds, loss) of a step."""
    dist.barrier()
    begin = time.perf_counter()
    loss = way.step()
    way.optimizer.step()
    way.optimizer.zero_grad()
    dist.barrier()
    return time.perf_counter() - begin, loss


def peak_bytes(way):
    """By rank the most bytes of activations. In a step of its own: counting costs time."""
    dist.barrier()
    with CountedBytes() as meter:
        way.step()
    gradients = sum(parameter.grad.nbytes for group in way.optimizer.param_groups
                    for parameter in group["params"])  # made in this step
    way.optimizer.zero_grad()
    peaks = [None] * RANKS
    dist.all_gather_object(peaks, meter.peak - gradients)
    return peaks


def say(text):
    if dist.get_rank() == 0:
        print(text, file=sys.stderr, flush=True)


class Search:
    """For the fastest of the rival's choices on these documents."""

    def __init__(self, options, config, pieces):
        self._of_rival = options, config, pieces
        self.seconds = {}  # by choice, its values joined by commas

    def best(self, choices, count):
        """The fastest ones, at most `count`."""
        return sorted(choices, key=self._seconds)[:count]

    def _seconds(self, choice):
        key = ",".join(choice.values())
        if key not in self.seconds:
            taken = float("inf")
            try:
                taken = timed(Rival(*self._of_rival, choice))[0]
            except (RuntimeError, ValueError, NotImplementedError) as error:
                say(f"{key}: {str(error).splitlines()[0]}")
            slowest = torch.tensor(taken)
            dist.all_reduce(slowest, dist.ReduceOp.MAX)
            self.seconds[key] = slowest.item()
            say(f"{key}: {self.seconds[key]:.2f} s")
        return self.seconds[key]


def best_rival(options, config, pieces, recompute):
    """(the fastest choice, the seconds of all that were tried on the whole documents)."""
    part = 8
    heads = [Piece(piece.tokens[:len(piece) // part], piece.labels[:len(piece) // part])
             for piece in pieces]
    smaller = argparse.Namespace(**vars(options) | {"context": options.context // part})
    short = Search(smaller, config, heads)
    some = short.best(({"schedule": schedule, "packing": packing, "order": "given",
                        "recompute": recompute}
                       for schedule in CHOICES["schedule"] for packing in CHOICES["packing"]), 3)
    some = short.best((choice | {"order": order} for choice in some for order in CHOICES["order"]),
                      3)
    whole = Search(options, config, pieces)
    return whole.best(some, 1)[0], whole.seconds


def rivals(options, config, pieces):
    """(by recomputation the rival, the seconds of all choices that were looked at)."""
    found, tried = {}, {}
    for number, recompute in enumerate(RECOMPUTE):
        if options.rivals:
            choice = dict(zip(CHOICES, options.rivals[number].split(","), strict=True))
            choice["recompute"] = recompute
        else:
            choice, seconds = best_rival(options, config, pieces, recompute)
            tried |= seconds
        found[recompute] = Rival(options, config, pieces, choice)
    return found, tried


def measure(options, folder):
    """The figures, on every rank."""
    config = config_of(options)
    documents = read_documents(sysconfig.get_paths()["stdlib"], options.seed)
    pieces = take_step(documents, options.context, options.step_tokens)
    ours = Ours(options, config, pieces, folder)
    found, tried = rivals(options, config, pieces)
    ways = {"slimpack": ours} | found
    seconds, losses = {name: [] for name in ways}, {}
    for turn in range(options.turns):
        for name, way in ways.items():
            taken, losses[name] = timed(way)
            seconds[name].append(taken)
        say(f"turn {turn + 1}: " + ", ".join(f"{name} {of[-1]:.2f} s"
                                             for name, of in seconds.items()))
    plan, median = ours.plan, {name: statistics.median(of) for name, of in seconds.items()}
    return {"model": options.model, "documents": len(pieces), "context": options.context,
            "tokens": sum(len(piece) for piece in pieces),
            "rivals": {name: " ".join(rival.choice.values()) for name, rival in found.items()},
            "tried": tried, "seconds": seconds, "median_seconds": median, "losses": losses,
            "speedup": {name: statistics.median(
                b / a for a, b in zip(seconds["slimpack"], seconds[name], strict=True))
                for name in found},
            "busy_seconds": ours.busy_seconds(),
            "peak_bytes": {name: peak_bytes(way) for name, way in ways.items()},
            "predicted": {"seconds": plan.makespan, "bubble": plan.bubble_ratio,
                          "busy_seconds": [busy / 1e9 for busy in plan.busy_ns.tolist()],
                          "peak_bytes": plan.peak_activation_bytes.tolist(),
                          "error": plan.makespan / median["slimpack"] - 1},
            "layer_begin": list(plan.layer_begin),
            "micropacks": [len(packs) for packs in (plan.replicas[0].forward,
                                                    plan.replicas[0].backward)]}


def report(figures):
    """A table for people."""
    mib = lambda bytes_: " ".join(f"{of_rank / 2**20:7,.0f}" for of_rank in bytes_)
    print(f"{figures['documents']} documents, {figures['tokens']:,} tokens, {figures['model']}; "
          f"MicroPacks {figures['micropacks'][0]}/{figures['micropacks'][1]}, "
          f"layers {figures['layer_begin']}")
    print(f"{'':34}{'step':>9}{'peak MiB by rank':>18}{'loss':>10}{'÷ slimpack':>12}")
    predicted = figures["predicted"]
    for name, seconds in figures["median_seconds"].items():
        ratio = figures["speedup"].get(name)
        print(f"{figures['rivals'].get(name, name):34}{seconds:7.2f} s"
              f"{mib(figures['peak_bytes'][name]):>18}{figures['losses'][name]:10.5f}"
              + (f"{ratio:12.3f}" if ratio else ""))
        if not ratio:
            print(f"{'  as predicted':34}{predicted['seconds']:7.2f} s"
                  f"{mib(predicted['peak_bytes']):>18}")
    print(f"predicted {predicted['error']:+.1%} of the measured step; ratios are medians by turn")


def run(rank, options, port, folder):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    tune_malloc()
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank]})
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    figures = measure(options, folder)
    if rank == 0:
        report(figures)
        if options.json:
            options.json.write_text(json.dumps(figures, indent=2) + "\n")
    dist.barrier()
    dist.destroy_process_group()


def main():
    options = parse()
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    port = store.port
    del store
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(run, (options, port, Path(folder)), nprocs=RANKS)


if __name__ == "__main__":
    main()
