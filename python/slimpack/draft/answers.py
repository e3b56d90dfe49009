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

from slimpack import InvalidInput
from slimpack.draft.data import answer_of


def write_answers(file, prompts, generate, done=0, tell=None):
    """Appends the answers to prompts (lists of token ids) from prompt `done` on to FILE.jsonl. Returns
    how many tokens they have.

    generate(prompts): the answers to at most generate.prompts_at_once prompts, as lists of token ids; the
    target. It is not asked for prompts without a token, whose answers are empty. tell(done, tokens): called
    after each call of it.
    """
    file, tokens = Path(file), 0
    try:
        with file.open("ab") as out:
            for begin in range(done, len(prompts), generate.prompts_at_once):
                asked = prompts[begin : begin + generate.prompts_at_once]
                made = iter(generate([prompt for prompt in asked if prompt]))
                answers = [next(made) if prompt else [] for prompt in asked]
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
        self.vocabulary = target.vocabulary
        self.positions = getattr(target.config, "max_position_embeddings", None)
        self._seed, self.prompts_at_once = seed, batch

    def __call__(self, prompts):
        longest = max(map(len, prompts), default=0)
        if longest == 0:
            return []
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
