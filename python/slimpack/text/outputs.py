"""The files of a dataset by their names, and files that are either the old ones or complete."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from slimpack.text.errors import writing


@dataclass(frozen=True)
class Outputs:
    """The names that belong to a prefix. Links are followed, so that they stay links."""

    prefix: str

    def named(self, suffix):
        return Path(os.path.realpath(self.prefix + suffix))

    @property
    def partial(self):
        return self.named(".partial")

    @property
    def tokenizer(self):
        return self.named("-tokenizer.json")

    @property
    def chat_template(self):
        """The template that `slimpack train` puts into its checkpoints in place of the model's own."""
        return self.named("-chat_template.jinja")

    def of_build(self, has_mask):
        """The files that a build leaves, by their names in PREFIX.partial, in the order in which they get their
        own: nobody sees a dataset without the mask that it is built with."""
        mask = {"mask.bin": self.named(".mask.bin"), "mask.idx": self.named(".mask.idx")} if has_mask else {}
        return {"tokenizer.json": self.tokenizer, **mask, "tokens.bin": self.named(".bin"),
                "index.idx": self.named(".idx")}

    def all(self):
        beside = (".checked.json", ".mask.checked.json")
        return [self.partial, self.chat_template, *self.of_build(True).values(), *map(self.named, beside)]


def write_json(file, value):
    replace_with(file, (json.dumps(value) + "\n").encode())


def replace_with(file, data):
    """The file is either the old one or complete."""
    temporary = file.with_name(file.name + ".tmp")
    with writing(file):
        with open(temporary, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, file)
