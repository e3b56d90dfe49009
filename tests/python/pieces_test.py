"""Tokens to text one by one: the pieces together are what the library makes of all tokens at once."""

import random

import pytest
from slimpack.generation import Answer
from slimpack.generation.texts import ByteText, TokenizerText
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
SPECIAL = ["<s>", "</s>", "<|end|>"]
WORDS = ["▁hello", "▁", "▁world", "lo", "▁▁▁", "é", "日", "\n", "▁<", ">", "n't", "▁.", "\ufffd"]


def vocabulary(tokens):
    return {token: id for id, token in enumerate(tokens)}


def byte_fallback():
    """A tokenizer in the form of Llama 2's."""
    tokenizer = Tokenizer(models.BPE(vocabulary(["<unk>", *BYTES, *WORDS]), [], unk_token="<unk>",
                                     byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    return tokenizer


def byte_level():
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocabulary([*alphabet, "Ġthe", "Ġcat", "æĹ¥", "ðŁĺĢ", "ðŁ"]), []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def metaspace():
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0), *((word, -1.0) for word in WORDS)], unk_id=0))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    return tokenizer


def word_piece():
    words = ["[UNK]", "hello", "##lo", ".", ",", "##n", "do", "n't", "é"]
    tokenizer = Tokenizer(models.WordPiece(vocabulary(words), unk_token="[UNK]"))
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def ends_of_words():
    tokenizer = Tokenizer(models.BPE(vocabulary(["a", "b</w>", "é</w>", "</w>"]), []))
    tokenizer.decoder = decoders.BPEDecoder("</w>")
    return tokenizer


def plain_words():
    return Tokenizer(models.WordLevel(vocabulary(["<unk>", "hello", "world"]), unk_token="<unk>"))


KINDS = [byte_fallback, byte_level, metaspace, word_piece, ends_of_words, plain_words]


@pytest.fixture(name="texts")
def fixture_texts(tmp_path, request):
    tokenizer = request.param()
    tokenizer.add_tokens(["<tool>", " and "])
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in SPECIAL])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return TokenizerText(tmp_path / "tokenizer.json", (0,))


def answer(texts, tokens, stop=()):
    heard = []
    made = Answer(texts, stop, heard.append)
    said = []
    for token in tokens:
        said.append(token)
        if not made.hear(token):
            break
    generation = made.finish({
        "tokens": said, "end": "length", "prompt_tokens": 1, "reused_tokens": 0, "first_token_seconds": 0.0,
        "decoding_seconds": 0.0, "passes": 0, "heads": 0})
    assert "".join(heard) == generation.text and all(heard)
    return generation


@pytest.mark.parametrize("texts", KINDS, indirect=True)
@pytest.mark.parametrize("seed", range(200))
def test_pieces_together_are_the_text_of_all_tokens(texts, seed):
    draw = random.Random(seed)
    size = texts.tokenizer.get_vocab_size()
    tokens = [draw.randrange(size + 2) for _ in range(draw.randrange(1, 40))]  # two that it does not know
    if draw.random() < 0.5:  # runs of one kind
        tokens = [draw.choice(tokens) for _ in tokens]
    assert answer(texts, tokens).text == texts.tokenizer.decode(tokens, skip_special_tokens=True)


@pytest.mark.parametrize("texts, tokens, text", [
    (byte_fallback, ["<0x0A>", "<0xE6>", "▁world", "é"], "\ufffd\ufffd worldé"),
    (byte_fallback, ["<0xE6>", "</s>", "<0x97>", "<0xA5>"], "日"),
    (byte_fallback, ["▁hello", "<0xE6>"], "hello\ufffd"),
    (byte_fallback, ["</s>", "▁hello", "<s>", "▁world"], "hello world"),
    (byte_level, ["æ"], "\ufffd"),
    (byte_level, ["æ", "Ġthe", "ĺ", "Ģ"], "\ufffd the\ufffd\ufffd"),
], indirect=["texts"])
def test_broken_characters_are_told_as_the_library_tells_them(texts, tokens, text):
    assert answer(texts, map(texts.tokenizer.token_to_id, tokens)).text == text


@pytest.mark.parametrize("texts", [byte_level], indirect=True)
def test_text_comes_as_soon_as_it_is_certain(texts):
    pieces = texts.pieces()
    names = ["Ġthe", "ðŁ", "ĺ", "Ģ", "</s>", "Ġcat", "æ"]
    heard = [pieces.step(texts.tokenizer.token_to_id(name)) for name in names]
    assert heard == [" the", "", "", "\U0001f600", "", " cat", ""]
    assert pieces.finish() == "\ufffd"


@pytest.mark.parametrize("texts", [byte_level], indirect=True)
@pytest.mark.parametrize("stop, text, tokens", [
    ("</s>", " the", 2),
    (["</s> cat"], " the", 3),
    (["the</s>"], " ", 2),
    (["<|end|>"], " the cat<tool>", 6),
    ([" cat"], " the", 3),
    (["</s><s>"], " the cat<tool>", 6),  # both come, but not together
    (["æ", "<tool>"], " the cat", 5),
])
def test_the_text_of_a_special_token_ends_an_answer(texts, stop, text, tokens):
    names = ["Ġthe", "</s>", "Ġcat", "<s>", "<tool>", "<|end|>"]
    made = answer(texts, map(texts.tokenizer.token_to_id, names), stop)
    assert (made.text, len(made.tokens)) == (text, tokens)
    assert made.end == ("length" if stop == ["</s><s>"] else "stop_text")


def test_a_model_of_bytes_tells_a_broken_end(tmp_path):
    assert answer(ByteText(tmp_path), [97, 0xE6, 256, 0x97]).text == "a\ufffd"
    assert answer(ByteText(tmp_path), [0xE6, 97, 0xFF]).text == "\ufffda\ufffd"
