"""SlimPack as an engine (engines.py says what an engine is)."""

import torch
from slimpack.generation import Generator


def choices(precision):
    return {"threads": [2, 1], "prefill_slice": [1024, 512, 4096]}


class Session:
    def __init__(self, folder, precision, settings, longest):
        torch.set_num_threads(settings["threads"])
        self.slice = settings["prefill_slice"]
        self.generator = Generator(f"{folder}/{precision}", dtype=precision)

    def generate(self, prompt, count):
        self.generator.forget()
        made = self.generator.generate(prompt, max_new_tokens=count, ignore_eos=True,
                                       prefill_slice=self.slice)
        return {"first_seconds": made.first_token_seconds, "decode_seconds": made.decoding_seconds,
                "tokens": made.tokens}

    def about(self):
        return {"torch": torch.__version__}

    def close(self):
        pass
