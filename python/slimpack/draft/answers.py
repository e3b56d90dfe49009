"""Training data that the target writes itself: its answers to prompts.

A head learns what its target would say, so text of the target's own serves better than text of others.
FILE.jsonl gets a line for each prompt, {"prompt": [ids], "answer": [ids]}, in the order of the prompts.
A start on a file that is there goes on behind its last whole line.
"""

import json
import os
from pathlib import Path

import numpy as np
import torch

from slimpack import IndexedDataset, InvalidInput
from slimpack.draft.data import answer_of


def write_answers(file, prompts, generate, done=0, tell=None):
    """Appends the answers to prompts (lists of token ids) from prompt `done` on to FILE.jsonl. Returns
    how many tokens they have.

    generate(prompts): the answers to at most generate.prompts_at_once prompts, as lists of token ids; the
    target. tell(done, tokens): called after each call of it.
    """
    file, tokens = Path(file), 0
    try:
        with file.open("ab") as out:
            for begin in range(done, len(prompts), generate.prompts_at_once):
                asked = prompts[begin : begin + generate.prompts_at_once]
                answers = generate(asked)
                for prompt, answer in zip(asked, answers, strict=True):
                    line = json.dumps({"prompt": list(prompt), "answer": list(answer)})
                    out.write(line.encode() + b"\n")
                    tokens += len(answer)
                out.flush()
                os.fsync(out.fileno())
                if tell is not None:
                    tell(begin + len(asked), tokens)
    except OSError as error:
        raise InvalidInput(f"cannot write '{file}': {error.strerror}; give another --out") from None
    return tokens


def answered(file, prompts, restart=False):
    """How many prompts the file answers, in their order. A line that a kill has cut is removed; all of
    them are with `restart`. Raises InvalidInput where a line answers another prompt."""
    file = Path(file)
    if not file.exists():
        return 0
    try:
        if restart:
            os.truncate(file, 0)
        data = file.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            os.truncate(file, whole)
    except OSError as error:
        raise InvalidInput(f"cannot read '{file}': {error.strerror}; give another --out") from None
    lines = data[:whole].splitlines()
    for number, line in enumerate(lines, 1):
        prompt, _ = answer_of(line, f"'{file}': line {number}")
        if number > len(prompts) or prompt != list(prompts[number - 1]):
            raise InvalidInput(f"'{file}': line {number} answers another prompt than the one given now; "
                               "give the same prompts to go on, or --restart to begin anew")
    return len(lines)


def read_prompts(path, tokenizer, field, prompt_tokens, count):
    """At most `count` prompts as token ids; None = all.

    FILE.jsonl: the text in a field, or a list of chat messages in it. Another file: each line a prompt.
    PREFIX of a dataset: the first prompt_tokens of each document.
    tokenizer: called for the first two kinds alone; returns the target's tokenizer. Where it has a chat
    template, a prompt is what a user says.
    """
    path = Path(path)
    if Path(f"{path}.idx").exists():
        dataset = IndexedDataset.open(str(path))
        documents = range(len(dataset) if count is None else min(count, len(dataset)))
        prompts = [dataset[document][:prompt_tokens].tolist() for document in documents]
    else:
        prompts = _read_texts(path, field, count)
        encode = _encoder(tokenizer())
        prompts = [encode(prompt) for prompt in prompts]
    prompts = [prompt for prompt in prompts if prompt]
    if not prompts:
        raise InvalidInput(f"'{path}' has no prompt; give a file with one on each line")
    return prompts


def _read_texts(file, field, count):
    texts = []
    try:
        with file.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                if len(texts) == count:
                    break
                is_json = file.suffix == ".jsonl"
                texts.append(_prompt_in(line, field, f"'{file}': line {number}") if is_json
                             else line.rstrip("\n"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidInput(f"cannot read '{file}': {reason}; check the path") from None
    return texts


def _prompt_in(line, field, place):
    try:
        prompt = json.loads(line)[field]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise InvalidInput(f"{place}: no JSON object with a field '{field}'; give --field, or mend the "
                           "line") from None
    messages = isinstance(prompt, list) and prompt and all(
        isinstance(m, dict) and {"role", "content"} <= m.keys() for m in prompt)
    if not isinstance(prompt, str) and not messages:
        raise InvalidInput(f"{place}: field '{field}' is neither a text nor a list of chat messages; "
                           "give --field, or mend the line")
    return prompt


def _encoder(tokenizer):
    """From a text or messages to token ids."""
    def encode(prompt):
        if tokenizer.chat_template is None:
            if not isinstance(prompt, str):
                raise InvalidInput("the target has no chat template, so prompts are texts; give texts")
            return tokenizer(prompt)["input_ids"]
        said = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        return list(tokenizer.apply_chat_template(said, add_generation_prompt=True, return_dict=True)
                    ["input_ids"])
    return encode


class TransformersGenerator:
    """The answers of a TransformersTarget, `batch` of them at the same time, greedy at temperature 0, each
    of at most new_tokens.

    end: the token ids that end an answer, and are its last; None = those of the target's own
    generation_config. seed: of sampling.
    """

    def __init__(self, target, new_tokens, temperature=0.0, end=None, seed=0, batch=32):
        settings = target.model.generation_config
        given = settings.eos_token_id if end is None else end
        self._end = set(np.atleast_1d([] if given is None else given).tolist())
        self._model, self._new_tokens, self._temperature = target.model, new_tokens, temperature
        self._seed, self.prompts_at_once = seed, batch

    def __call__(self, prompts):
        longest = max(map(len, prompts))
        device = self._model.device
        ids_BT = torch.zeros(len(prompts), longest, dtype=torch.int64, device=device)
        mask_BT = torch.zeros_like(ids_BT)
        for row, prompt in enumerate(prompts):  # generation goes on at the right end
            ids_BT[row, longest - len(prompt) :] = torch.as_tensor(prompt)
            mask_BT[row, longest - len(prompt) :] = 1
        sampling = ({"do_sample": True, "temperature": self._temperature, "top_k": 0, "top_p": 1.0}
                    if self._temperature > 0 else {"do_sample": False, "temperature": None,
                                                   "top_k": None, "top_p": None})
        with torch.no_grad(), torch.random.fork_rng():
            torch.manual_seed(self._seed + sum(map(sum, prompts)))  # the same wherever a start begins
            out_BT = self._model.generate(
                input_ids=ids_BT, attention_mask=mask_BT, max_new_tokens=self._new_tokens,
                pad_token_id=0, eos_token_id=sorted(self._end) or None, **sampling)
        return [self._cut(row) for row in out_BT[:, longest:].tolist()]

    def _cut(self, answer):
        """Up to the first end: what follows is padding."""
        for place, token in enumerate(answer):
            if token in self._end:
                return answer[: place + 1]
        return answer
