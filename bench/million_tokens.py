"""Says what an 8B model needs for one document of a million tokens, with short ones beside it, in
slimpack.torch.pipeline on eight GPUs of 80 GB: memory, host memory, and time of a step.

    .venv/bin/python bench/million_tokens.py [FOLDER]     # about three minutes; needs no GPU

FOLDER keeps the cost file. bench/README.md has the result.
"""

import json
import sys
import tempfile
from pathlib import Path

import slimpack
import slimpack.torch
from transformers import AutoConfig

LONGEST = 1 << 20
LENGTHS = [LONGEST] + 8 * [8192] + 32 * [2048] + 64 * [512]
MODEL = Path(__file__).parents[1] / "models" / "llama-3.1-8b.json"
# The levers: (recompute, whether the optimizer is in host memory).
LEVERS = [("full", False), ("full", True), ("offload", False), ("offload", True)]


def main(folder):
    config = json.loads(MODEL.read_text()) | {"max_position_embeddings": LONGEST}
    model = AutoConfig.for_model(config.pop("model_type"), **config)
    cost = slimpack.torch.estimate(model, Path(folder) / "million.json", "h100", context=LONGEST)
    print(f"{len(LENGTHS)} documents, {sum(LENGTHS):,} tokens, pp = 8\n")
    for recompute, on_host in LEVERS:
        job = slimpack.Job(model, {"pp": 8, "offload_optimizer": on_host}, cost=cost, context=LONGEST,
                           recompute=recompute, granularity=4096)
        print(f'recompute="{recompute}", offload_optimizer={on_host}\n')
        fit = job.fit(LENGTHS)
        print(fit)
        if fit:
            print(job.plan(LENGTHS))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1] if len(sys.argv) > 1 else folder)
