"""Helpers of the tests of `python -m slimpack.data_build`: tokenizers, inputs, runs of the command,
and a reader of Megatron's files that shares nothing with their writer."""

import gzip
import json
import struct
import subprocess
import sys
from pathlib import Path

from processes import PATIENCE, environment
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

END = "<|endoftext|>"


def bpe(texts, vocabulary):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=[END], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def word_level(file, ids):
    """A tokenizer with just these tokens; text has them between spaces."""
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=next(iter(ids))))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(file))
    return file


def ids_alone(tokenizer, texts, end=True):
    """The ids of each text, encoded alone; texts without any are left out."""
    library = Tokenizer.from_file(str(tokenizer))
    close = [library.token_to_id(END)] if end else []
    encoded = [library.encode(text).ids for text in texts if text]
    return [ids + close for ids in encoded if ids]


def write_lines(file, texts, field="text"):
    data = "".join(json.dumps({"id": i, field: text}, ensure_ascii=i % 2 == 0) + "\n"
                   for i, text in enumerate(texts)).encode()
    file.write_bytes(gzip.compress(data) if file.name.endswith(".gz") else data)
    return file


def build(*arguments):
    """The command within this process: its exit code."""
    from slimpack import data_build
    return data_build.main([str(a) for a in arguments])


def run(*arguments, **options):
    """The command in a process of its own."""
    return subprocess.run(command(*arguments), env=environment(), capture_output=True, text=True,
                          timeout=PATIENCE, check=False, **options)


def command(*arguments):
    return [sys.executable, "-m", "slimpack.data_build", *map(str, arguments)]


def files_of(prefix):
    return Path(f"{prefix}.bin").read_bytes(), Path(f"{prefix}.idx").read_bytes()


def read_megatron(prefix):
    """Dtype code and documents, from the layout: magic of 9 bytes, u64 version, u8 dtype code, u64
    sequences, u64 documents + 1; int32 lengths, int64 byte pointers, int64 document indices."""
    tokens, index = files_of(prefix)
    magic, version, code, sequences, entries = struct.unpack_from("<9sQBQQ", index)
    assert (magic, version) == (b"MMIDIDX\0\0", 1)
    arrays = struct.unpack_from(f"<{sequences}i{sequences}q{entries}q", index, 34)
    assert len(index) == 34 + 12 * sequences + 8 * entries
    lengths = arrays[:sequences]
    pointers, firsts = arrays[sequences : 2 * sequences], arrays[2 * sequences :]
    assert firsts == tuple(range(entries))  # each document is one sequence
    size, letter = {8: (2, "H"), 4: (4, "i")}[code]
    assert len(tokens) == size * sum(lengths)
    return code, [list(struct.unpack_from(f"<{n}{letter}", tokens, at))
                  for n, at in zip(lengths, pointers)]


def left_in(folder):
    return sorted(p.name for p in folder.iterdir())
