"""Prompts of a given length from documents that the byte-level models have not seen."""

from pathlib import Path

from tokenizers import Tokenizer


class Prompts:
    """Prompts for the model in `folder`, by its tokenizer; without one, tokens are bytes."""

    def __init__(self, folder, held_out):
        """`held_out`: a folder of documents."""
        tokenizer = folder / "fp32" / "tokenizer.json"
        self.tokenizer = Tokenizer.from_file(str(tokenizer)) if tokenizer.exists() else None
        self.documents = sorted(held_out.rglob("*.py"), key=lambda file: (-file.stat().st_size, file))

    def encoded(self, file):
        if self.tokenizer is None:
            return list(Path(file).read_bytes())
        return self.tokenizer.encode(file.read_text(errors="replace")).ids

    def take(self, number, length):
        """The first `length` tokens of the documents, the longest first, from the `number`-th on.
        Raises ValueError where they have fewer."""
        tokens = []
        for file in self.documents[number:]:
            tokens += self.encoded(file)
            if len(tokens) >= length:
                return tokens[:length]
        raise ValueError(f"the held-out documents have {len(tokens):,} tokens from number {number} on, the "
                         f"prompt needs {length:,}: ask for shorter prompts or fewer turns")
