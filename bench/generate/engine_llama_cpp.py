"""llama.cpp as an engine (engines.py says what an engine is). Runs under the interpreter that
prepare.py made, which has llama.cpp as compiled for this processor."""

import ctypes
import time

import llama_cpp
import numpy as np

BF16 = 30  # GGML_TYPE_BF16 of ggml.h, which the bindings leave out
CACHE_TYPES = {"f32": llama_cpp.GGML_TYPE_F32, "f16": llama_cpp.GGML_TYPE_F16,
               "bf16": BF16}
FLASH_ATTENTION = {"on": llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED,
                   "off": llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED}


def choices(precision):
    """A cache in f16 is llama.cpp's default for weights of every precision."""
    weights, cache = (["f32"], ["f32", "f16"]) if precision == "fp32" else (["bf16", "f16"], ["f16", "bf16"])
    return {"threads": [2, 1], "flash_attention": ["on", "off"], "weights": weights, "cache": cache,
            "rows_at_once": [512, 128, 2048]}


class Session:
    def __init__(self, folder, precision, settings, longest):
        llama_cpp.llama_backend_init()
        file = f"{folder}/{settings['weights']}.gguf"
        self.model = llama_cpp.llama_model_load_from_file(
            file.encode(), llama_cpp.llama_model_default_params())
        if not self.model:
            raise RuntimeError(f"llama.cpp cannot load {file}")
        options = llama_cpp.llama_context_default_params()
        options.n_ctx = options.n_batch = longest
        options.n_ubatch = settings["rows_at_once"]
        options.n_threads = options.n_threads_batch = settings["threads"]
        options.flash_attn_type = FLASH_ATTENTION[settings["flash_attention"]]
        options.type_k = options.type_v = CACHE_TYPES[settings["cache"]]
        self.context = llama_cpp.llama_init_from_model(self.model, options)
        if not self.context:
            raise RuntimeError(f"llama.cpp takes no context of {longest} tokens")
        self.vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))

    def next_token(self, tokens):
        """The likeliest one after `tokens`, which join the sequence."""
        held = (ctypes.c_int32 * len(tokens))(*tokens)
        code = llama_cpp.llama_decode(self.context, llama_cpp.llama_batch_get_one(held, len(tokens)))
        if code != 0:
            raise RuntimeError(f"llama_decode returned {code}")
        logits = llama_cpp.llama_get_logits_ith(self.context, -1)
        return int(np.ctypeslib.as_array(logits, (self.vocabulary,)).argmax())

    def generate(self, prompt, count):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), False)
        start = time.perf_counter()
        tokens = [self.next_token(prompt)]
        first = time.perf_counter()
        while len(tokens) < count:
            tokens.append(self.next_token(tokens[-1:]))
        return {"first_seconds": first - start, "decode_seconds": time.perf_counter() - first,
                "tokens": tokens}

    def close(self):
        llama_cpp.llama_free(self.context)
        llama_cpp.llama_model_free(self.model)

    def about(self):
        return {"llama-cpp-python": llama_cpp.__version__,
                "features": llama_cpp.llama_print_system_info().decode().strip(" |")}
