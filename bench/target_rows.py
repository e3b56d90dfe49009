"""How much of the head's time is left where prompts are no targets, and whether plans know it.

Trains three steps of a small model with a vocabulary of 49,152 on documents that are the same but for their
masks: every token is a target; of each document the last 30%; of each document one. The last one's backward
on the last stage is that of the layers, and what the others take beyond it is the head's. Virtual time.

    PYTHONPATH=build/release/python .venv/bin/python bench/target_rows.py [--turns 3] [--spread]

The program slimpack must be on the PATH.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np

from slimpack.text.index import write_index

SILENT = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
VOCABULARY = 49152
SHARES = {"all": 1.0, "answers": 0.3, "one": 0.0}
MODEL = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 256,
    "intermediate_size": 768, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 64, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "vocab_size": VOCABULARY, "tie_word_embeddings": False, "torch_dtype": "float32",
}
RUN = """
[model]
config = "model.json"
[data]
prefix = "{name}"
context = 2048
step_tokens = 6144
[train]
steps = 3
clock = "virtual"
[parallel]
pp = 2
spread_vocabulary = {spread}
[plan]
granularity = 64
[cost]
file = "cost.json"
[output]
dir = "runs/{name}"
"""


def write(prefix, documents, dtype):
    np.concatenate(documents).astype(dtype).tofile(f"{prefix}.bin")
    with open(f"{prefix}.idx", "wb") as file:
        write_index(file, np.dtype(dtype), np.array([len(document) for document in documents]))


def prepare(folder, spread):
    """Writes the datasets, the model and the run files."""
    rng = np.random.default_rng(1)
    lengths = np.minimum(2048, rng.lognormal(5.5, 0.9, 120).astype(int) + 20)
    documents = [rng.integers(0, VOCABULARY, n) for n in lengths]
    (folder / "model.json").write_text(json.dumps(MODEL))
    for name, share in SHARES.items():
        write(folder / name, documents, "u2")
        counted = [max(1, round(share * n)) for n in lengths]
        write(folder / f"{name}.mask", [np.arange(n) >= n - k for n, k in zip(lengths, counted, strict=True)], "u1")
        (folder / f"{name}.toml").write_text(RUN.format(name=name, spread=str(spread).lower()))


def seconds(timeline):
    """Seconds of the last stage's backward passes, and of heads where ranks share them: (predicted, measured)."""
    events = [e for e in json.loads(timeline.read_text())["traceEvents"] if e.get("cat") in ("backward", "head")]
    last = max(e["tid"] for e in events)
    return [sum(e["dur"] for e in events if (e["pid"], e["tid"]) == (process, last)) / 1e6 for process in (0, 1)]


def heads(folder):
    """By dataset (predicted, measured) seconds of the head in the last step: one turn."""
    took = {}
    for name in SHARES:
        subprocess.run(["slimpack", "train", f"{name}.toml"], cwd=folder, check=True, **SILENT)
        took[name] = seconds(folder / "runs" / name / "timeline.json")
        shutil.rmtree(folder / "runs" / name)
    return {name: [a - b for a, b in zip(took[name], took["one"], strict=True)] for name in ("all", "answers")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--spread", action="store_true", help="every rank has a part of the vocabulary")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder, options.spread)
        subprocess.run(["slimpack", "profile", "all.toml", "--out", "cost.json"], cwd=folder, check=True, **SILENT)
        turns = []
        while len(turns) < options.turns:
            print(f"turn {len(turns) + 1} of {options.turns}", file=sys.stderr)
            turns.append(heads(folder))
    shares = [[turn["answers"][k] / turn["all"][k] for turn in turns] for k in (0, 1)]
    print(f"30% of the tokens are targets; {options.turns} turns, medians")
    print(f"head, of its time with all targets: predicted {median(shares[0]):.1%}, measured {median(shares[1]):.1%}")
    for name in ("all", "answers"):
        predicted, measured = (median(turn[name][k] for turn in turns) for k in (0, 1))
        print(f"head, {name:7}: predicted {predicted:.3f} s, measured {measured:.3f} s, "
              f"off by {predicted / measured - 1:+.1%}")


if __name__ == "__main__":
    main()
