"""EAGLE-3 heads of the benchmark's models, trained on what the models themselves say."""

import json
import subprocess
import sys

from head_prompts import head_requests

PROMPT_BYTES = 200  # of a module, for models of bytes
# Few steps of few tokens, so that the rate is high: an hour at most on two cores. Normed inputs (--eagle31)
# then learn faster: after 40 steps on SmolLM2's answers the first guess is right in 23% instead of 18%.
TRAINING = ["--eagle31", "--ttt-length", 4, "--step-tokens", 2048, "--learning-rate", 1e-3,
            "--held-out-tokens", 8192, "--evaluate-every", 190, "--checkpoint-every", 38]


def prompts_of(model, folder, corpus):
    """The options of `slimpack draft answers` that say what a model is asked."""
    if not (model / "tokenizer.json").exists():
        return ["--prompts", corpus / "train", "--prompt-tokens", PROMPT_BYTES]
    file = folder / "prompts.jsonl"
    file.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in head_requests()))
    return ["--prompts", file]


def make_head(folder, corpus, new_tokens, training, device="cpu"):
    """folder/head, by the answers of the bf16 model in `folder`, of at most new_tokens each. training:
    further options of `slimpack draft train`, which runs on `device`."""
    model, data = folder / "bf16", folder / "head-data"
    data.mkdir(exist_ok=True)
    answers = data / "answers.jsonl"
    run("answers", ["--target", model, *prompts_of(model, data, corpus), "--new-tokens", new_tokens,
                    "--batch", 64, "--dtype", "bf16", "--out", answers])
    run("train", ["--target", model, "--data", answers, "--dtype", "bf16", "--device", device, *TRAINING,
                  *training, "--out", folder / "head"])


def run(command, options):
    """The program itself prints progress. Given again, it goes on where it was stopped."""
    call = [sys.executable, "-m", "slimpack", "draft", command, *map(str, options)]
    if subprocess.run(call, check=False).returncode != 0:
        sys.exit(f"slimpack draft {command} has stopped; the same command goes on from there")
