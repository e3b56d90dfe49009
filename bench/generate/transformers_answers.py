"""The likeliest answers by transformers."""

import torch
from transformers import AutoModelForCausalLM

TYPES = {"fp64": torch.float64, "fp32": torch.float32, "bf16": torch.bfloat16}


def load(folder, precision):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=TYPES[precision]).eval()


@torch.no_grad()
def likeliest_answers(model, prompts, count):
    """Answers to prompts of one length, each of `count` tokens whatever ends it."""
    ids_BT = torch.tensor(prompts)
    out_BT = model.generate(ids_BT, attention_mask=torch.ones_like(ids_BT), max_new_tokens=count,
                            min_new_tokens=count, do_sample=False, pad_token_id=0)
    return out_BT[:, ids_BT.shape[1]:].tolist()
