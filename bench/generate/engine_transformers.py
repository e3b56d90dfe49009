"""transformers' `generate` as an engine (engines.py says what an engine is)."""

import time

import torch
import transformers
from transformers import AutoModelForCausalLM, CompileConfig, GenerationConfig
from transformers.generation.streamers import BaseStreamer


def choices(precision):
    """Only the decoding step is compiled, and only with a static cache, as `generate` does it. Inductor's
    freezing takes the cache's length for a constant and fails on the second text, so it is left out."""
    return {"threads": [2, 1], "attention": ["sdpa", "eager"],
            "cache": ["dynamic", "static", "static compiled"]}


class Arrivals(BaseStreamer):
    """When each token came, and which it is. `generate` first hands over the prompt."""

    def __init__(self):
        self.tokens, self.times, self.has_prompt = [], [], False

    def put(self, value):
        if self.has_prompt:
            self.times.append(time.perf_counter())
            self.tokens += value.flatten().tolist()
        self.has_prompt = True

    def end(self):
        pass


class Session:
    def __init__(self, folder, precision, settings, longest):
        torch.set_num_threads(settings["threads"])
        self.model = AutoModelForCausalLM.from_pretrained(
            f"{folder}/{precision}", attn_implementation=settings["attention"])
        cache, *compiled = settings["cache"].split()
        self.options = {"cache_implementation": cache} if cache == "static" else {}
        if compiled:
            # generate compiles on GPUs alone unless it is asked to.
            how = CompileConfig(mode="default")
            how._compile_all_devices = True
            self.options["compile_config"] = how

    def generate(self, prompt, count):
        prompt = torch.tensor([prompt])
        # Without an end of text, so that all engines decode as many tokens.
        config = GenerationConfig(do_sample=False, max_new_tokens=count, eos_token_id=None,
                                  pad_token_id=0, **self.options)
        arrivals = Arrivals()
        start = time.perf_counter()
        with torch.inference_mode():
            self.model.generate(prompt, attention_mask=torch.ones_like(prompt), streamer=arrivals,
                                generation_config=config)
        return {"first_seconds": arrivals.times[0] - start, "tokens": arrivals.tokens,
                "decode_seconds": arrivals.times[-1] - arrivals.times[0]}

    def close(self):
        torch.compiler.reset()  # compiled code holds the weights

    def about(self):
        return {"transformers": transformers.__version__, "torch": torch.__version__,
                "instructions": torch.backends.cpu.get_cpu_capability()}
