"""Text from a trained model."""

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from slimpack import InvalidInput, runtime
from slimpack.generation.chat import Chat
from slimpack.generation.stops import StopStrings
from slimpack.generation.texts import require_fitting, text_of
from slimpack.numbers import ANY_WHOLE, UINT64, real, token_ids, whole


@dataclass(frozen=True)
class Speculation:
    """How guessing went."""

    passes: int  # of the model, each of which verified a tree of guesses
    rows: int  # that were verified in all, one for each pass beside the guesses
    acceptance: list[float]  # by depth: the share of trees that had the right guess there
    drafting_seconds: float
    verifying_seconds: float


@dataclass(frozen=True)
class SparsePrefill:
    """Figures of sparse attention on a prompt, over all its slices and layers."""

    density: float  # computed pairs of queries and keys, of those of dense attention
    dense_heads: float  # the share of heads that took dense attention, because it was faster
    least_kept: float | None  # of measured heads: the least share of a query's attention (CRA)
    mean_kept: float | None


@dataclass(frozen=True)
class Generation:
    """An answer and how it came about."""

    text: str
    tokens: list[int]
    end: str  # "length", "stop_token", "stop_text" or "positions"
    prompt_tokens: int
    reused_tokens: int  # of the prompt, kept from the one before
    first_token_seconds: float
    decoding_seconds: float  # from the first token to the end
    speculation: Speculation | None = None
    sparse: SparsePrefill | None = None

    @property
    def tokens_per_second(self):
        """After the first token; None where there is one alone."""
        further = len(self.tokens) - 1
        return further / self.decoding_seconds if further > 0 else None


class Generator:
    """A model that goes on from prompts. It keeps the last one's keys and values, so that a prompt that
    begins like it costs only the rest. Not for several threads at once.

    model: a Hugging Face folder, a checkpoint, or a folder of checkpoints (its newest one).
    dtype: "fp32", "bf16", "fp64", or "auto": bf16 where the processor or device multiplies it fast.
    device: "cpu" or "cuda".
    tokenizer: a tokenizer.json in place of the model's.
    draft: guesses tokens that the model then verifies many at a time: "ngram" (what followed the last
        tokens where they stood before), the folder of an EAGLE-3 head, or a list of both, which guess
        together. The answer stays the same.
    draft_rule: how large the trees of guesses are. "expected" measures what guesses and verifications
        cost and how often guesses are right, takes the size that promises most tokens a second, and
        guesses nothing where that is faster. "fixed": always the same size (EAGLE-3). "heterospec": by
        the entropy of the draft (HeteroSpec); fit_heterospec prepares the head.
    draft_depth, draft_rows, draft_width: the size of a tree: tokens in a row, rows that are verified
        together, and guesses after each token. "expected" takes trees of this size at most. None
        leaves it to the rule: 6, 60 and 10 for "fixed"; 16, 64 and 10 at most for "expected"; those
        that the head was prepared with for "heterospec".
    sparse: attention of long prompts leaves keys out that little depends on: "sample-attention",
        "sample-attention-v1", "flex-prefill" or "x-attention". None = dense attention.
    measured_heads: query heads of each layer whose kept share of attention is measured; costs dense
        attention of each.

    Raises InvalidInput for what is no such model, and ImportError without the right torch.
    """

    def __init__(self, model, *, dtype="auto", device="cpu", tokenizer=None, draft=None,
                 draft_rule="expected", draft_depth=None, draft_rows=None, draft_width=None, sparse=None,
                 measured_heads=()):
        self.native = runtime.load()
        self.folder = Path(self.native.model_folder(os.fspath(model)))
        if dtype == "auto":
            dtype = "bf16" if device == "cuda" or self.native.has_fast_bf16() else "fp32"
        self.dtype = dtype
        guessing = self.native.DraftSettings()
        guessing.ngrams, head = drafts_of(draft)
        if head:
            require_head(head)
        guessing.head = head
        guessing.rule = draft_rule
        for name, value in (("depth", draft_depth), ("rows", draft_rows), ("width", draft_width)):
            setattr(guessing, name, None if value is None else whole(f"draft_{name}", value, *ANY_WHOLE))
        self.model = self.native.Generator(os.fspath(self.folder), dtype, device, guessing)
        self.sparse = sparse
        if sparse is not None:
            self.model.use_sparse(sparse, [whole("a measured head", head, *ANY_WHOLE)
                                           for head in measured_heads])
        self.texts = text_of(self.folder, self.model.vocabulary, tokenizer)

    def forget(self):
        """Forgets the last sequence: the next prompt is run from its beginning."""
        self.model.forget()

    def chat(self, messages, *, tools=None, documents=None, template=None, variables=None, **settings):
        """The answer to messages, such as {"role": "user", "content": "Hello"}. Settings as in generate. The
        special token with which the chat template ends a turn also ends the answer.

        tools, documents: JSON schemas of functions, and texts, for chat templates that know them.
        template: the name of one of the model's chat templates, or a Jinja program. None = its usual one.
        variables: by name, what else the template sees, such as {"enable_thinking": False}.
        """
        chat = Chat(self.folder, self.texts)
        of_template = {"tools": tools, "documents": documents, "template": template, "variables": variables}
        prompt = chat.tokens(messages, **of_template)
        end = chat.end_of_turn(**of_template)
        if end is not None and self.texts.special_ids[end] not in self.texts.end_tokens:
            settings = {"end_tokens": (*self.texts.end_tokens, self.texts.special_ids[end]), **settings}
        return self.generate(prompt, **settings)

    def generate(self, prompt, *, max_new_tokens=256, temperature=0.0, top_k=0, top_p=1.0, min_p=0.0,
                 seed=0, stop=(), end_tokens=None, ignore_eos=False, prefill_slice=None, on_text=None):
        """Goes on from a prompt: text, or the numbers of tokens. Returns a Generation.

        temperature: 0 takes the likeliest token each time.
        top_k, top_p, min_p: leave unlikely tokens out, as in transformers; 0, 1 and 0 leave out none.
        stop: texts that end the answer and are not part of it. The text of a special token may be one.
        end_tokens: the tokens that end the answer. None = those that the model's settings name.
        ignore_eos: goes on where the model would end.
        prefill_slice: tokens of the prompt that go through the model at once; fewer take less memory.
        on_text: called with each new piece of text.

        Ctrl-C ends it after the token in progress. Raises InvalidInput for a prompt that is empty or has
        more tokens than the model has positions, and for settings out of range.
        """
        settings = self.native_settings(max_new_tokens, temperature, top_k, top_p, min_p, seed, ignore_eos,
                                        prefill_slice)
        if end_tokens is not None and not ignore_eos:
            settings.stop_tokens = token_ids("end_tokens", end_tokens)
        answer = Answer(self.texts, stop, on_text)
        return answer.finish(self.model.generate(self.tokens_of(prompt), settings, answer.hear))

    def generate_batch(self, prompts, *, batch=32, max_new_tokens=256, temperature=0.0, top_k=0, top_p=1.0,
                       min_p=0.0, seed=0, stop=(), ignore_eos=False, prefill_slice=None, on_text=None):
        """Goes on from many prompts, `batch` of them at the same time: several times as many tokens a second
        on a CPU as one after the other. Returns a Generation for each, in their order. Settings as in
        generate; the draft and sparse attention are not used.

        seed: of the first prompt; each further one has the next number.
        on_text: called with the number of a prompt, from 0, and each new piece of its text.
        """
        settings = self.native_settings(max_new_tokens, temperature, top_k, top_p, min_p, seed, ignore_eos,
                                        prefill_slice)
        if isinstance(prompts, (str, bytes)):
            raise InvalidInput("the prompts are one text; give a list of prompts")
        asked = [self.native.BatchPrompt(self.tokens_of(prompt, f"prompt {number}: "),
                                         (settings.seed + number) % (UINT64 + 1))
                 for number, prompt in enumerate(prompts)]
        answers = [Answer(self.texts, stop, on_text and partial(on_text, number))
                   for number in range(len(asked))]
        made = self.model.generate_batch(asked, whole("batch", batch, *ANY_WHOLE), settings,
                                         lambda number, token: answers[number].hear(token))
        return [answer.finish(one) for answer, one in zip(answers, made, strict=True)]

    def tokens_of(self, prompt, place=""):
        """The tokens of a prompt that the model can take. Errors begin with `place`."""
        try:
            tokens = self.texts.encode(prompt) if isinstance(prompt, str) else token_ids("prompt", prompt)
            require_fitting(tokens, self.model.vocabulary, self.model.positions)
        except InvalidInput as error:
            raise InvalidInput(f"{place}{error}") from None
        return tokens

    def native_settings(self, max_new_tokens, temperature, top_k, top_p, min_p, seed, ignore_eos,
                        prefill_slice):
        settings = self.native.GenerateSettings()
        settings.max_new_tokens = whole("max_new_tokens", max_new_tokens, *ANY_WHOLE)
        settings.temperature, settings.seed = real("temperature", temperature), whole("seed", seed, 0, UINT64)
        settings.top_k = whole("top_k", top_k, *ANY_WHOLE)
        settings.top_p, settings.min_p = real("top_p", top_p), real("min_p", min_p)
        settings.stop_tokens = [] if ignore_eos else list(self.texts.end_tokens)
        self.set_slice(settings, prefill_slice)
        return settings

    def score(self, text, *, skip=1, prefill_slice=None):
        """Σ −log p in nats of the tokens of a text, or of a list of tokens, each given all before it; the
        first `skip` are not counted. Divide by log(2) and the bytes that are counted for bits per byte."""
        settings = self.native.GenerateSettings()
        self.set_slice(settings, prefill_slice)
        return self.model.nats(self.tokens_of(text), max(1, whole("skip", skip, *ANY_WHOLE)), settings)

    def set_slice(self, settings, prefill_slice):
        """Keys are chosen anew for each slice, which pays for slices of some thousand tokens."""
        if prefill_slice is None and self.sparse is not None:
            prefill_slice = SPARSE_SLICE
        if prefill_slice is not None:
            settings.prefill_slice = whole("prefill_slice", prefill_slice, *ANY_WHOLE)


SPARSE_SLICE = 2048


def drafts_of(draft):
    """Whether n-grams guess, and the folder of the head that does; empty = none."""
    given = [] if draft is None else [draft] if isinstance(draft, (str, os.PathLike)) else list(draft)
    heads = [os.fspath(one) for one in given if one != "ngram"]
    if len(heads) > 1:
        raise InvalidInput(f"draft names the heads '{heads[0]}' and '{heads[1]}'; only one can guess")
    return "ngram" in given, heads[0] if heads else ""


def texts_in(stop):
    """A list of texts, of one or several."""
    stops = [stop] if isinstance(stop, (str, bytes)) else list(stop)
    for one in stops:
        if not isinstance(one, str):
            raise InvalidInput(f"stop has {one!r}, it must be a text or a list of texts")
    return stops


def require_head(folder):
    """Raises InvalidInput unless the folder holds a head that the runtime reads as it is."""
    try:
        from slimpack.draft.files import require_own_form
    except ImportError as error:
        raise ImportError(f"draft heads need torch and safetensors ({error}); pip install "
                          "'slimpack[draft]'") from error
    require_own_form(folder)


class Answer:
    """The text of one answer as its tokens come."""

    def __init__(self, texts, stop, on_text):
        self.coming, self.on_text = texts.pieces(), on_text
        self.stops = StopStrings(texts_in(stop), texts.special_ids)
        self.unseen = {texts.special_ids[text]: text for text in self.stops.unseen}
        self.pieces = []

    def finish(self, made):
        """The Generation, by what the native call returned."""
        if not self.stops.stopped:
            self.tell(self.stops.pass_on(self.coming.finish()))
        self.tell(self.stops.finish())
        end = "stop_text" if self.stops.stopped else made["end"]
        return Generation(text="".join(self.pieces), tokens=made["tokens"], end=end,
                          prompt_tokens=made["prompt_tokens"], reused_tokens=made["reused_tokens"],
                          first_token_seconds=made["first_token_seconds"],
                          decoding_seconds=made["decoding_seconds"], speculation=speculation_of(made),
                          sparse=sparse_of(made))

    def hear(self, token):
        if token in self.unseen:
            self.tell(self.stops.pass_on(self.coming.finish()))
            if not self.stops.stopped:
                self.tell(self.stops.pass_on(self.unseen[token], seen=False))
        else:
            self.tell(self.stops.pass_on(self.coming.step(token)))
        return not self.stops.stopped

    def tell(self, text):
        if not text:
            return
        self.pieces.append(text)
        if self.on_text is not None:
            self.on_text(text)


def speculation_of(made):
    if made["passes"] == 0:
        return None
    shares = [right / trees for right, trees in zip(made["accepted"], made["guessed"])]
    return Speculation(made["passes"], made["rows"], shares, made["drafting_seconds"],
                       made["verifying_seconds"])


def fit_heterospec(model, draft, prompts, *, dtype="auto", draft_depth=None, draft_rows=None,
                   draft_width=None, **settings):
    """Prepares an EAGLE-3 head for draft_rule="heterospec": answers prompts, keeps how sure the head was of
    guesses that were right, divides that into eight bins, and writes heterospec.json into the head's
    folder. Takes some hundred answers. Returns how many guesses it kept.

    draft_depth, draft_rows, draft_width: the tree that the rule then starts from (default: 6, 60, 10).
    settings: as in Generator.generate. Raises InvalidInput for too few guesses, and as Generator.
    """
    generator = Generator(model, dtype=dtype, draft=draft, draft_rule="record", draft_depth=draft_depth,
                          draft_rows=draft_rows, draft_width=draft_width)
    for prompt in prompts:
        generator.generate(prompt, **settings)
    generator.model.fit_entropy_bins()
    return generator.model.records


def sparse_of(made):
    if made["heads"] == 0:
        return None
    measured = made["measured_heads"]
    return SparsePrefill(made["computed_pairs"] / made["dense_pairs"], made["dense_heads"] / made["heads"],
                         made["least_kept"] if measured else None,
                         made["sum_of_means"] / measured if measured else None)


MODEL_OPTIONS = ("dtype", "device", "tokenizer", "draft", "draft_rule", "draft_depth", "draft_rows",
                 "draft_width", "sparse", "measured_heads")


def generate(model, prompt, **settings):
    """Text that a model goes on with from a prompt: Generator(model, …).generate(prompt, …), which name the
    settings. For several prompts make one Generator."""
    of_model = {name: settings.pop(name) for name in MODEL_OPTIONS if name in settings}
    return Generator(model, **of_model).generate(prompt, **settings)
