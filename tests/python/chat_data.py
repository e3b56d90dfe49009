"""Helpers of the tests of `slimpack data build --chat`: small templates in the styles of published models,
tokenizers for them, and conversations.

Each template is written twice by one text: MARK stands where {% generation %} marks stand in the one, and
nothing in the other."""

import json
import struct
from dataclasses import dataclass
from pathlib import Path

from text_data import bpe, build, left_in, read_megatron
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

WORDS = "the cat and other mat sat on a b c two lines then because é 日本 😀".split()

LLAMA_3 = """{{ bos_token }}{% for m in messages %}
{{- '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' }}
{%- if m.role == 'assistant' %}BEGIN{% if m.tool_calls %}{{ {'name': m.tool_calls[0].function.name,
 'parameters': m.tool_calls[0].function.arguments} | tojson }}{% else %}{{ m.content | trim }}{% endif %}
{{- '<|eot_id|>' }}END{% else %}{{ m.content | trim + '<|eot_id|>' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"""

QWEN_2_5 = """{% if tools %}{{ '<|im_start|>system\\n' }}{% if messages[0].role == 'system' %}{{ messages[0].content }}
{%- else %}{{ 'You help.' }}{% endif %}{% for tool in tools %}{{ '\\n' + tool | tojson }}{% endfor %}
{{- '<|im_end|>\\n' }}{% elif messages[0].role != 'system' %}{{ '<|im_start|>system\\nYou help.<|im_end|>\\n' }}
{%- endif %}{% for m in messages %}
{%- if m.role == 'assistant' %}{{ '<|im_start|>assistant\\n' }}BEGIN{{ m.content or '' }}
{%- for call in m.tool_calls or [] %}{{ '\\n<tool_call>\\n' + call.function | tojson + '\\n</tool_call>' }}{% endfor %}
{{- '<|im_end|>\\n' }}END{% elif m.role == 'tool' %}
{%- if messages[loop.index0 - 1].role != 'tool' %}{{ '<|im_start|>user' }}{% endif %}
{{- '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\\n' }}{% endif %}
{%- elif m.role != 'system' or not tools %}
{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

QWEN_3 = """{% set ns = namespace(last=-1) %}{% for m in messages %}{% if m.role == 'user' %}
{%- set ns.last = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}
{%- if m.role == 'assistant' %}{{ '<|im_start|>assistant\\n' }}BEGIN
{%- if loop.index0 > ns.last and (loop.last or m.reasoning_content) %}
{{- '<think>\\n' + (m.reasoning_content or '') + '\\n</think>\\n\\n' }}{% endif %}{{ m.content }}
{%- for call in m.tool_calls or [] %}{{ '<tool_call>' + call.function | tojson + '</tool_call>' }}{% endfor %}
{{- '<|im_end|>\\n' }}END
{%- else %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% if enable_thinking is defined %}
{{- '<think>\\n\\n</think>\\n\\n' }}{% endif %}{% endif %}"""

MISTRAL = """{% set rest = messages[1:] if messages[0].role == 'system' else messages %}{{ bos_token }}
{%- for m in rest %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}
{{- raise_exception('roles must alternate') }}{% endif %}{% if m.role == 'user' %}{{ '[INST] ' }}
{%- if messages[0].role == 'system' and (loop.last or loop.index0 == rest | length - 2) %}
{{- messages[0].content + '\\n\\n' }}{% endif %}{{ m.content + '[/INST]' }}
{%- else %}BEGIN{{ ' ' + m.content + eos_token }}END{% endif %}{% endfor %}"""

GEMMA = """{{ bos_token }}{% set rest = messages[1:] if messages[0].role == 'system' else messages %}
{%- for m in rest %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}
{{- raise_exception('Conversation roles must alternate user/assistant') }}{% endif %}
{{- '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' }}
{%- if loop.first and messages[0].role == 'system' %}{{ messages[0].content + '\\n\\n' }}{% endif %}
{%- if m.role == 'assistant' %}BEGIN{{ m.content | trim + '<end_of_turn>\\n' }}END
{%- else %}{{ m.content | trim + '<end_of_turn>\\n' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"""

SMOLLM2 = """{% for m in messages %}{% if loop.first and m.role != 'system' %}
{{- '<|im_start|>system\\nYou are small.<|im_end|>\\n' }}{% endif %}{{ '<|im_start|>' + m.role + '\\n' }}
{%- if m.role == 'assistant' %}BEGIN{{ m.content + '<|im_end|>' }}END{% else %}{{ m.content + '<|im_end|>' }}{% endif %}
{{- '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

CHATML = ["<|im_start|>", "<|im_end|>", "<think>", "</think>"]


@dataclass(frozen=True)
class Style:
    """A template, its special tokens, what it puts behind an answer, and how its tokenizer parts text."""

    template: str
    tokens: list
    end: str
    metaspace: bool = False

    def text(self, marks):
        begin, end = ("{% generation %}", "{% endgeneration %}") if marks else ("", "")
        return self.template.replace("BEGIN", begin).replace("END", end)


STYLES = {
    "llama-3": Style(LLAMA_3, ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"], "<|eot_id|>"),
    "qwen-2.5": Style(QWEN_2_5, CHATML, "<|im_end|>\n"),
    "qwen-3": Style(QWEN_3, CHATML, "<|im_end|>\n"),
    "mistral": Style(MISTRAL, ["[INST]", "[/INST]"], "</s>", True),
    "gemma": Style(GEMMA, ["<start_of_turn>", "<end_of_turn>"], "<end_of_turn>\n", True),
    "smollm2": Style(SMOLLM2, CHATML, "<|im_end|>\n"),
}


def metaspace(texts, vocabulary):
    """A tokenizer as SentencePiece makes them, with tokens for bytes."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))],
        show_progress=False))
    return tokenizer


def make_folder(folder, style, marks=False, template=None):
    """A model's folder with tokenizer and chat template."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = [" ".join(WORDS) + "\n\n"] * 9 + ["[INST] the cat[/INST] and then", "assistant user system"]
    library = metaspace(texts, 420) if style.metaspace else bpe(texts, 380)
    library.add_special_tokens(["<s>", "</s>", *style.tokens])
    library.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text('{"model_type": "llama"}')
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}))
    (folder / "chat_template.jinja").write_text(style.text(marks) if template is None else template)
    return folder


def random_text(r, number, ends=("", "", "", " ", "\n", ".")):
    """A text that no other message of the conversation has."""
    return f"{' '.join(r.choices(WORDS, k=r.randrange(1, 9)))} n{number}{r.choice(ends)}"


def random_messages(r, most=4):
    """Turns of user and assistant, perhaps behind a system's, perhaps with a user's at the end."""
    roles = ["system"] * r.randrange(2) + ["user", "assistant"] * r.randint(1, most)
    roles += ["user"] * (r.random() < 0.2)
    return [{"role": role, "content": random_text(r, number)} for number, role in enumerate(roles)]


def write_objects(file, objects):
    file.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in objects))
    return file


def built_in(folder, model, objects, *arguments, processes=1):
    """Tokens and masks of what objects become with the tokenizer of a model's folder."""
    file = write_objects(folder / "in.jsonl", objects)
    out = folder / f"c{len(left_in(folder))}"
    assert build("--chat", "--from", file, "--tokenizer", model, "--out", out, "--processes", processes, *arguments) == 0
    return read_megatron(out)[1], read_mask(out)


def read_mask(prefix):
    """The mask's documents, from the layout of Megatron's files."""
    index, data = Path(f"{prefix}.mask.idx").read_bytes(), Path(f"{prefix}.mask.bin").read_bytes()
    magic, version, code, count, entries = struct.unpack_from("<9sQBQQ", index)
    assert (magic, version, code, entries) == (b"MMIDIDX\0\0", 1, 1, count + 1)
    lengths = struct.unpack_from(f"<{count}i", index, 34)
    starts = struct.unpack_from(f"<{count}q", index, 34 + 4 * count)
    assert len(data) == sum(lengths)
    return [list(data[start:start + length]) for start, length in zip(starts, lengths)]


def files_of_chat(prefix):
    return [Path(f"{prefix}{end}").read_bytes() for end in (".bin", ".idx", ".mask.bin", ".mask.idx")]


def said(folder, tokens, mask):
    """The text of each run of targets."""
    library, runs = Tokenizer.from_file(str(folder / "tokenizer.json")), []
    for at, (token, target) in enumerate(zip(tokens, mask)):
        if target and at and mask[at - 1]:
            runs[-1].append(token)
        elif target:
            runs.append([token])
    return [library.decode(run, skip_special_tokens=False) for run in runs]
