"""The answers of a target by slimpack's own engine, `slimpack generate`."""

from pathlib import Path

from slimpack import runtime
from slimpack.generation.texts import end_tokens


class EngineGenerator:
    """The answers of the model in a folder, one after the other, greedy at temperature 0, each of at
    most new_tokens. What the context has said before is guessed and verified, so that text that
    repeats itself comes faster.

    end: the token ids that end an answer, and are its last; None = those of the model's settings. seed:
    of sampling. Raises InvalidInput for a model that the engine does not know.
    """

    def __init__(self, folder, new_tokens, temperature=0.0, end=None, seed=0, dtype="fp32", device="cpu"):
        self._native = runtime.load()
        guessing = self._native.DraftSettings()
        guessing.draft = "ngram"
        self._model = self._native.Generator(str(folder), dtype, device, guessing)
        self._end = set(end_tokens(Path(folder)) if end is None else end)
        self._new_tokens, self._temperature, self._seed = new_tokens, temperature, seed

    def __call__(self, prompts):
        return [self._answer(prompt) for prompt in prompts]

    def _answer(self, prompt):
        settings = self._native.GenerateSettings()
        settings.max_new_tokens, settings.temperature = self._new_tokens, self._temperature
        settings.seed = self._seed + sum(prompt)  # the same wherever a start begins
        # The token that ends an answer is part of it, so the listener ends it.
        return self._model.generate(list(prompt), settings, lambda token: token not in self._end)["tokens"]
