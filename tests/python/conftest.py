import pytest
from text_data import bpe


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory):
    """A byte-level BPE of 300 tokens whose end of text is <|endoftext|>, token 0."""
    file = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    bpe(["the cat and the other cat sat on the mat\n"] * 20, 300).save(str(file))
    return file
