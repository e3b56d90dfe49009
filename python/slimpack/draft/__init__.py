"""Draft heads for speculative decoding: EAGLE-3's one layer, which guesses the next tokens of a target
model from the target's own hidden states.

    from slimpack import draft

    head = draft.load_head("heads/llama-3.1-8b", target)   # any published EAGLE-3 head
    draft.save_head(head, "heads/mine")                    # config.json, model.safetensors

`slimpack draft train` trains one (docs/draft-heads.md).
"""

from slimpack.draft.config import HeadConfig
from slimpack.draft.files import load_head, save_head
from slimpack.draft.head import DraftHead
from slimpack.draft.target import Features, TransformersTarget

__all__ = ["DraftHead", "Features", "HeadConfig", "TransformersTarget", "load_head", "save_head"]
