"""A dataset from text: Megatron's PREFIX.bin and PREFIX.idx, as `slimpack train` reads them.

Inputs are text files (each one document), JSON lines (.jsonl, .ndjson, .jsonl.gz: each line one
document) and Parquet (each row one document). A Hugging Face tokenizer.json turns them into tokens, in
several processes. Documents keep the order of the inputs: files as they are named, folders by path.
Tokens are stored as uint16 when the vocabulary is below 65,500, else as int32. A document without
text is left out and counted.

A build that was killed goes on when the same command is given again. What it has so far is in
PREFIX.partial; the dataset appears under its name when it is complete.
"""

import argparse
import contextlib
import itertools
import os
import sys

from slimpack.command_line import end, exit_code
from slimpack.one_line_parser import OneLineParser, whole_number
from slimpack.text.documents import documents_of, read_batches
from slimpack.text.encoding import stored_type
from slimpack.text.errors import BadDocument, BadInput, require_text, shown
from slimpack.text.inputs import EXCLUDED_FOLDERS, find_inputs
from slimpack.text.partial import Outputs, Partial
from slimpack.text.progress import Progress, counted
from slimpack.text.tokenizer import (END_OF_TEXT, MIN_TRAINED, described, import_tokenizers, load,
                                     read_tokenizer, train)
from slimpack.text.workers import encode_in_order

EPILOG = """examples:
  # Parquet files of a Hugging Face dataset, with the tokenizer of the model to train
  {prog} --from fineweb/ --glob '*.parquet' \\
    --tokenizer Qwen3-0.6B/tokenizer.json --out corpus
  # JSON lines whose documents are in the field "content"
  {prog} --from part-*.jsonl.gz --field content \\
    --tokenizer tokenizer.json --out corpus
  # A tokenizer of its own for the Python sources of a folder: corpus-tokenizer.json
  {prog} --from ~/src --glob '*.py' --train-tokenizer 8192 --out corpus

Then: slimpack data inspect corpus
"""
NAMED_SKIPS = 5
MAX_TRAINED = 1 << 24  # tokens: no text has so many pieces that come often


def prefix(text):
    if not os.path.basename(text):
        raise argparse.ArgumentTypeError(f"'{text}' is a folder; give the beginning of the files' "
                                         f"names in it, such as '{os.path.join(text, 'corpus')}'")
    return text


def make_parser(prog):
    parser = OneLineParser(prog=prog, description=__doc__, epilog=EPILOG.format(prog=prog))
    of_input = parser.add_argument_group("what to read")
    of_input.add_argument("--from", dest="sources", nargs="+", action="extend", required=True,
                          metavar="PATH", help="files, and folders with all folders below them")
    of_input.add_argument("--glob", default="*", metavar="PATTERN",
                          help="pattern of the file names to take from folders (default: all)")
    of_input.add_argument("--exclude-folder", dest="excluded", action="append", metavar="PATTERN",
                          help="names of folders not to enter; may be given several times "
                          f"(default: {' '.join(EXCLUDED_FOLDERS)})")
    of_input.add_argument("--format", choices=["auto", "text", "jsonl", "parquet"], default="auto",
                          help="of all inputs; auto goes by the names: .jsonl and .ndjson, which "
                          "may be .gz, and .parquet; all others are text")
    of_input.add_argument("--field", default="text", metavar="NAME",
                          help="field of JSON lines, or column of Parquet, that holds the document "
                          "(default: text)")
    tokens = parser.add_argument_group("how to make tokens of it")
    which = tokens.add_mutually_exclusive_group(required=True)
    which.add_argument("--tokenizer", metavar="FILE",
                       help="tokenizer.json of a Hugging Face model, or the model's folder. Its "
                       "own special tokens are added (such as one that begins a text); nothing is "
                       "cut or padded")
    size = whole_number(MIN_TRAINED, MAX_TRAINED, "size of a vocabulary")
    which.add_argument("--train-tokenizer", type=size, metavar="VOCAB",
                       help=f"first train a byte-level BPE of so many tokens ({MIN_TRAINED}, all bytes "
                       f"and the end of a document, to {MAX_TRAINED}) on the inputs, written "
                       "to PREFIX-tokenizer.json. It reads them all: for a large corpus train on a "
                       "part of it, then give --tokenizer")
    tokens.add_argument("--append-eod", action=argparse.BooleanOptionalAction,
                        help="end every document with the tokenizer's end of text (default: if it "
                        "is known: the eos_token of the files beside FILE, or else a usual name "
                        f"such as {END_OF_TEXT})")
    tokens.add_argument("--eod-token", metavar="TOKEN", help="the token that ends a document")
    how = parser.add_argument_group("how to run")
    how.add_argument("--out", type=prefix, required=True, metavar="PREFIX",
                     help="writes PREFIX.bin (tokens) and PREFIX.idx (documents)")
    cores = len(os.sched_getaffinity(0))
    how.add_argument("--processes", type=whole_number(1, 1024, "number of processes"), default=cores,
                     metavar="N",
                     help=f"processes that make tokens (default: one for each core, here {cores}); "
                     "the dataset is the same for any number")
    how.add_argument("--restart", action="store_true",
                     help="begin anew where an earlier build of PREFIX was stopped")
    return parser


def parse(argv, prog):
    parser = make_parser(prog)
    options = parser.parse_args(argv)
    for name in ("field", "eod_token"):
        if (given := getattr(options, name)) is not None:
            require_text(f"--{name.replace('_', '-')}", given)
    if options.append_eod is False and options.eod_token is not None:
        parser.error("--eod-token names the end of documents, --no-append-eod wants none; leave "
                     "one away")
    return options


def kept_options(options, tokenizer):
    """Everything that the tokens depend on, under the names of the command line."""
    if tokenizer:
        source = {"--tokenizer": tokenizer.checksum, "--train-tokenizer": None}
        end = tokenizer.end
    else:
        source = {"--tokenizer": None, "--train-tokenizer": options.train_tokenizer}
        end = None if options.append_eod is False else options.eod_token or END_OF_TEXT
    return {**source, "--format": options.format, "--field": options.field, "--eod-token": end,
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
        kept = kept_options(options, self.tokenizer)
        self.partial = Partial(outputs, self.inputs, kept, options.restart)
        self.end = kept["--eod-token"]

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
                print(f"going on after {counted(state.documents)}", file=sys.stderr)
            if state.stage == "encoding":
                self.encode()
            if state.documents == 0:
                raise BadDocument(f"none of the {len(self.inputs):,} inputs has a document with "
                                  f"text ({state.findings.empty:,} are empty); give other inputs")
        except BadDocument:
            self.partial.discard()
            raise
        self.partial.finish()

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
        for batch in read_batches(self.inputs, self.options.field):
            texts = [text for _, text in documents_of(batch, self.options.field)]
            yield from texts
            documents += len(texts)
            progress.show(documents, self.bytes_read(batch), sum(map(len, texts)))
        progress.finish(documents)

    def encode(self):
        """Tokens of what is left of the inputs. Whatever ends it, what is done is noted."""
        state = self.partial.state
        batches = read_batches(self.inputs, self.options.field, state.position)
        encoded = encode_in_order(batches, self.tokenizer, self.options.field,
                                  self.options.processes)
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
        print(f"{out}.bin and {os.path.basename(out)}.idx: {counted(state.documents)}, "
              f"{counted(state.tokens, 'token')} ({stored_type(tokenizer.vocabulary).name})")
        if self.options.train_tokenizer is not None:
            print(f"{out}-tokenizer.json: trained on these documents")
        print(f"vocabulary: {tokenizer.vocabulary:,}; a model's vocab_size is at least that")
        self.report_end()
        if tokenizer.has_dropout:
            print("the tokenizer's dropout is left out, so that a text has the same tokens always")
        if found.empty:
            print(f"{counted(found.empty, 'document')} without text left out, the first: {found.first_empty}")
        if found.lossy:
            print(f"{counted(found.lost_characters, 'character')} in {counted(found.lossy, 'document')} "
                  f"have no token and are lost, the first in {found.first_lossy}; a tokenizer with tokens "
                  "for bytes keeps them")
        print(f"next: slimpack data inspect {out}")

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
    options = parse(argv, prog)

    def work():
        build = Build(options)
        build.run()
        build.report()

    return exit_code(work, stopped="stopped on request; the same command goes on from here")


if __name__ == "__main__":
    end(main)
