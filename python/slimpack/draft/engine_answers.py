"""The answers of a target by slimpack's own engine, `slimpack generate`."""

from pathlib import Path

from slimpack import runtime
from slimpack.generation.texts import end_tokens


class EngineGenerator:
    """The answers of the model in a folder, `batch` of them at the same time, greedy at temperature 0, each
    of at most new_tokens.

    end: the token ids that end an answer, and are its last; None = those of the model's settings. seed:
    of sampling. Raises InvalidInput for a model that the engine does not know.
    """

    def __init__(self, folder, new_tokens, temperature=0.0, end=None, seed=0, dtype="fp32", device="cpu",
                 batch=32):
        self._native = runtime.load()
        self._model = self._native.Generator(str(folder), dtype, device, self._native.DraftSettings())
        self.vocabulary, self.positions = self._model.vocabulary, self._model.positions
        self._end = set(end_tokens(Path(folder)) if end is None else end)
        self._seed, self._batch = seed, batch
        self._settings = self._native.GenerateSettings()
        self._settings.max_new_tokens, self._settings.temperature = new_tokens, temperature
        self.prompts_at_once = 8 * batch  # more than a batch, so that few places wait for the last answers

    def __call__(self, prompts):
        # Seeds are the same wherever a start begins.
        asked = [self._native.BatchPrompt(list(prompt), self._seed + sum(prompt)) for prompt in prompts]
        # The token that ends an answer is part of it, so the listener ends it.
        made = self._model.generate_batch(asked, self._batch, self._settings,
                                          lambda _, token: token not in self._end)
        return [answer["tokens"] for answer in made]
