"""A tokenizer for SFTTrainer, which wants one also for documents that have token ids."""

import json
import os

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer


def tokenizer(folder):
    """One with 64 words."""
    words = {"<pad>": 0, "<s>": 1, "</s>": 2, **{f"w{number}": number for number in range(3, 64)}}
    library = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    own = folder / f"words-{os.environ.get('RANK', 0)}"
    own.mkdir(exist_ok=True, parents=True)
    library.save(str(own / "tokenizer.json"))
    (own / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>", "eos_token": "</s>"}))
    return AutoTokenizer.from_pretrained(own)
