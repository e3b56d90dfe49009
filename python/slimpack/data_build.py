"""A dataset from text: Megatron's PREFIX.bin and PREFIX.idx, as `slimpack train` reads them.

Inputs are text files (each one document), JSON lines (.jsonl, .ndjson, .jsonl.gz: each line one
document) and Parquet (each row one document). A Hugging Face tokenizer.json turns them into tokens, in
several processes. Documents keep the order of the inputs: files as they are named, folders by path.
Tokens are stored as uint16 when the vocabulary is below 65,500, else as int32. A document without
text is left out and counted.

With --chat each document is a conversation, and PREFIX.mask.bin and PREFIX.mask.idx say which of its tokens
the loss counts. A template that --chat-template names is kept in PREFIX-chat_template.jinja, and `slimpack train`
puts it into its checkpoints.

A build that was killed goes on when the same command is given again. What it has so far is in
PREFIX.partial; the dataset appears under its name when it is complete.
"""

import contextlib
import itertools
import os
import sys
from functools import partial

from slimpack.command_line import end, exit_code
from slimpack.text.build_options import parse
from slimpack.text.chat_encoding import ChatEncoder, chat_of, identity
from slimpack.text.conversations import ConversationColumns
from slimpack.text.documents import documents_of, read_batches
from slimpack.text.encoding import Encoder, stored_type
from slimpack.text.errors import BadDocument, BadInput, shown
from slimpack.text.inputs import EXCLUDED_FOLDERS, find_inputs
from slimpack.text.outputs import Outputs
from slimpack.text.parquet import TextColumn
from slimpack.text.partial import Partial
from slimpack.text.progress import Progress, counted
from slimpack.text.tokenizer import END_OF_TEXT, described, import_tokenizers, load, read_tokenizer, train
from slimpack.text.workers import encode_in_order

NAMED_SKIPS = 5


def kept_options(options, tokenizer, chat):
    """Everything that the tokens depend on, under the names of the command line."""
    if tokenizer:
        source = {"--tokenizer": tokenizer.checksum, "--train-tokenizer": None}
        end = tokenizer.end
    else:
        source = {"--tokenizer": None, "--train-tokenizer": options.train_tokenizer}
        end = None if options.append_eod is False else options.eod_token or END_OF_TEXT
    of_chat = identity(chat) if chat else {}
    return {**source, **of_chat, "--loss-on": options.loss_on, "--format": options.format,
            "--field": options.field, "--eod-token": end,
            "the version of tokenizers": import_tokenizers().__version__}


class Build:
    """One build: which inputs become tokens how, and how far it is."""

    def __init__(self, options):
        self.options = options
        outputs = Outputs(options.out)
        self.inputs, self.left_out = find_inputs(
            options.sources, options.glob, options.excluded or EXCLUDED_FOLDERS, options.format,
            outputs.all())
        sizes = (source.size for source in self.inputs)
        self.bytes_before = list(itertools.accumulate(sizes, initial=0))
        self.tokenizer = None
        if options.tokenizer is not None:
            self.tokenizer = read_tokenizer(options.tokenizer, options.eod_token,
                                            options.append_eod)
        self.chat, named_template = None, None
        self.column, self.noun = TextColumn(options.field), "document"
        if options.chat:
            self.require_objects()
            self.chat = chat_of(self.tokenizer, options.tokenizer, options.chat_template)
            named_template = self.chat.templates["default"] if options.chat_template else None
            self.column, self.noun = ConversationColumns(options.field), "conversation"
        kept = kept_options(options, self.tokenizer, self.chat)
        self.partial = Partial(outputs, self.inputs, kept, options.restart, options.chat, named_template)
        self.end = kept["--eod-token"]

    def require_objects(self):
        """Refuses inputs that hold no conversations."""
        for source in self.inputs:
            if source.format == "text":
                raise BadInput(f"'{shown(source.path)}' holds text by its name, and --chat reads JSON lines and "
                               "Parquet; leave it out (--glob), or give --format")

    def run(self):
        with contextlib.closing(self.partial):
            self.go_on()

    def go_on(self):
        """From wherever an earlier start was stopped to the end."""
        state = self.partial.state
        try:
            if self.tokenizer is None:
                self.tokenizer = self.own_tokenizer()
            self.partial.open(stored_type(self.tokenizer.vocabulary))
            if state.documents > 0:
                print(f"going on after {counted(state.documents, self.noun)}", file=sys.stderr)
            if state.stage == "encoding":
                self.encode()
            if state.documents == 0:
                raise BadDocument(self.nothing())
        except BadDocument:
            self.partial.discard()
            raise
        self.partial.finish()

    def nothing(self):
        """The words about inputs of which nothing is left."""
        inputs, empty = len(self.inputs), self.partial.state.findings.empty
        if not self.chat:
            return (f"none of the {inputs:,} inputs has a document with text ({empty:,} are empty); give other "
                    "inputs")
        if not empty:
            return f"none of the {inputs:,} inputs has a conversation; give other inputs"
        return (f"none of the {inputs:,} inputs has a conversation with targets ({empty:,} have none), the first: "
                f"{self.partial.state.findings.first_empty}; give other inputs, or another --loss-on")

    def make_encoder(self):
        """A callable that makes the encoder of a process."""
        field = self.options.field
        if self.chat:
            return partial(ChatEncoder, self.tokenizer, self.chat, self.options.loss_on, field)
        return partial(Encoder, self.tokenizer, field)

    def own_tokenizer(self):
        text = self.partial.trained_tokenizer()
        if text is None:
            text = self.train()
            self.partial.keep_tokenizer(text)
        return described(load(text), text, self.end)

    def train(self):
        os.environ.setdefault("RAYON_NUM_THREADS", str(self.options.processes))
        with self.progress("training the tokenizer") as progress:
            return train(self.texts(progress), self.options.train_tokenizer,
                         self.end or END_OF_TEXT)

    def texts(self, progress):
        documents = 0
        for batch in read_batches(self.inputs, self.column):
            texts = [text for _, text in documents_of(batch, self.options.field)]
            yield from texts
            documents += len(texts)
            progress.show(documents, self.bytes_read(batch), sum(map(len, texts)))
        progress.finish(documents)

    def encode(self):
        """Tokens of what is left of the inputs. Whatever ends it, what is done is noted."""
        state = self.partial.state
        batches = read_batches(self.inputs, self.column, state.position)
        encoded = encode_in_order(batches, self.make_encoder(), self.options.processes)
        try:
            with self.progress("tokenizing", state.read) as progress, contextlib.closing(encoded):
                for batch in encoded:
                    state.read = self.bytes_read(batch)
                    self.partial.append(batch)
                    progress.show(state.documents, state.read, batch.text_bytes)
                progress.finish(state.documents)
            self.partial.note()
        except BadDocument:
            raise
        except BaseException:
            with contextlib.suppress(BadInput):
                self.partial.note()
            raise

    def bytes_read(self, batch):
        """The bytes read of all inputs, up to the end of a batch."""
        return self.bytes_before[batch.end.input] + batch.read

    @contextlib.contextmanager
    def progress(self, label, done=0):
        progress = Progress(label, self.bytes_before[-1], done)
        try:
            yield progress
        finally:
            progress.leave()

    def report(self):
        state, tokenizer = self.partial.state, self.tokenizer
        found = state.findings
        for path in self.left_out[:NAMED_SKIPS]:
            print(f"skipped '{shown(path)}': belongs to the dataset that is written",
                  file=sys.stderr)
        if len(self.left_out) > NAMED_SKIPS:
            print(f"skipped {len(self.left_out) - NAMED_SKIPS} more", file=sys.stderr)
        out = shown(self.options.out)
        print(f"{out}.bin and {os.path.basename(out)}.idx: {counted(state.documents, self.noun)}, "
              f"{counted(state.tokens, 'token')} ({stored_type(tokenizer.vocabulary).name})")
        if self.options.train_tokenizer is not None:
            print(f"{out}-tokenizer.json: trained on these documents")
        print(f"vocabulary: {tokenizer.vocabulary:,}; a model's vocab_size is at least that")
        if self.chat:
            self.report_targets(out)
        else:
            self.report_end()
        if tokenizer.has_dropout:
            print("the tokenizer's dropout is left out, so that a text has the same tokens always")
        if found.empty:
            what = "targets" if self.chat else "text"
            print(f"{counted(found.empty, self.noun)} without {what} left out, the first: {found.first_empty}")
        if found.lossy:
            print(f"{counted(found.lost_characters, 'character')} in {counted(found.lossy, self.noun)} "
                  f"have no token and are lost, the first in {found.first_lossy}; a tokenizer with tokens "
                  "for bytes keeps them")
        show = f" --show 3 --tokenizer {shown(self.options.tokenizer)}" if self.chat else ""
        print(f"next: slimpack data inspect {out}{show}")

    def report_targets(self, out):
        state = self.partial.state
        print(f"{out}.mask.bin and {os.path.basename(out)}.mask.idx: {state.targets / state.tokens:.1%} of the "
              f"tokens are targets ({state.targets:,})")
        by = "its marks say" if self.chat.has_generation() else "the texts of the first messages say"
        print(f"chat template of '{shown(self.chat.folder)}': {by} where the assistant's turns begin and end")
        if self.options.chat_template:
            print(f"{out}-chat_template.jinja: a copy of it, for the checkpoints that are trained on these files")
        if (found := state.findings).cut:
            print(f"{counted(found.cut, self.noun)} with a turn that begins or ends within a token, the first: "
                  f"{found.first_cut}; the text is cut there, so that the prompt's tokens are those of generation")
        if found.endless:
            print(f"{counted(found.endless, self.noun)} whose last answer ends without a special token, the first: "
                  f"{found.first_endless}; a model learns from such a token where to end, so let the template, or its "
                  "marks, have one there")

    def report_end(self):
        tokenizer, ended = self.tokenizer, self.partial.state.findings.ended
        if tokenizer.end is None:
            print("no token ends the documents; --eod-token names one")
            return
        usual = ", a usual name: no file beside the tokenizer names one" if tokenizer.end_is_usual else ""
        print(f"each document ends with {tokenizer.end} (token {tokenizer.end_id}){usual}")
        if ended:
            print(f"{counted(ended, 'document')} had it at the end of the text already; it is not put twice")


def main(argv=None, prog="slimpack data build"):
    """Builds a dataset as the arguments say. The exit code: 0, 1 for a build that failed on good
    input, 2 for bad input, 130 for Ctrl-C."""
    options = parse(argv, prog, __doc__)

    def work():
        build = Build(options)
        build.run()
        build.report()

    return exit_code(work, stopped="stopped on request; the same command goes on from here")


if __name__ == "__main__":
    end(main)
