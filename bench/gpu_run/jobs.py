"""The steps that are measured: models and documents."""

import json
from pathlib import Path

BENCH = Path(__file__).resolve().parents[1]


def lengths_of(context, step_tokens):
    """Documents of the list, truncated at the context, until the step holds its tokens, as bench/gpu
    takes them."""
    lengths = []
    for line in (BENCH / "data" / "wlbllm_lengths.txt").read_text().split():
        if sum(lengths) >= step_tokens:
            break
        lengths.append(min(int(line), context))
    return lengths


def write_jobs(folder, device, build):
    """Requests of bench/gpu_*.py by name, as files of the folder. On a processor one tiny job."""
    llama = json.loads((BENCH / "data" / "llama_1b.json").read_text())
    stack = json.loads((BENCH.parent / "models" / "llama-3.1-8b.json").read_text())
    stack |= {"num_hidden_layers": 4, "vocab_size": 32768}  # which fits with AdamW's states
    stack.pop("rope_scaling", None)
    tiny = llama | {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
                    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
                    "vocab_size": 256, "max_position_embeddings": 256}
    mixed, long = ("1.2B, 32K", llama, lengths_of(32_768, 262_144)), 131_072
    jobs = [mixed, ("8B stack, 64K", stack, [long // 2] * 2), ("8B stack, 128K", stack, [long])]
    requests = {}
    for name, model, lengths in jobs if device == "cuda" else [("tiny", tiny, [200, 100, 30])]:
        file = folder / (name.replace(", ", "-").replace(" ", "-") + ".json")
        config = file.with_suffix(".config.json")
        config.write_text(json.dumps(model | {"max_position_embeddings": max(lengths)}))
        file.write_text(json.dumps({"model": str(config), "context": max(lengths), "device": device,
                                    "build": str(build), "lengths": lengths,
                                    "steps": 1 if len(lengths) < 3 else 3}))  # of seconds each
        requests[name] = file
    return requests
