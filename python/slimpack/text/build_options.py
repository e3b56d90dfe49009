"""The options of `slimpack data build`."""

import argparse
import os

from slimpack.one_line_parser import OneLineParser, whole_number
from slimpack.text.conversations import MESSAGES
from slimpack.text.errors import require_text
from slimpack.text.inputs import EXCLUDED_FOLDERS
from slimpack.text.targets import LOSS_ON
from slimpack.text.tokenizer import END_OF_TEXT, MIN_TRAINED

EPILOG = """examples:
  # Parquet files of a Hugging Face dataset, with the tokenizer of the model to train
  {prog} --from fineweb/ --glob '*.parquet' \\
    --tokenizer Qwen3-0.6B/tokenizer.json --out corpus
  # JSON lines whose documents are in the field "content"
  {prog} --from part-*.jsonl.gz --field content \\
    --tokenizer tokenizer.json --out corpus
  # Conversations, of which the loss counts what the assistant says
  {prog} --chat --from chats.jsonl --tokenizer Qwen3-0.6B --out chats
  # A tokenizer of its own for the Python sources of a folder: corpus-tokenizer.json
  {prog} --from ~/src --glob '*.py' --train-tokenizer 8192 --out corpus

Then: slimpack data inspect corpus
"""
MAX_TRAINED = 1 << 24  # tokens: no text has so many pieces that come often


def prefix(text):
    if not os.path.basename(text):
        raise argparse.ArgumentTypeError(f"'{text}' is a folder; give the beginning of the files' "
                                         f"names in it, such as '{os.path.join(text, 'corpus')}'")
    return text


def make_parser(prog, description):
    parser = OneLineParser(prog=prog, description=description, epilog=EPILOG.format(prog=prog))
    add_input(parser)
    add_tokens(parser)
    add_chat(parser)
    add_run(parser)
    return parser


def add_input(parser):
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
    of_input.add_argument("--field", metavar="NAME",
                          help="field of JSON lines, or column of Parquet, that holds the document "
                          f"(default: text; with --chat {MESSAGES})")


def add_tokens(parser):
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


def add_chat(parser):
    chat = parser.add_argument_group("conversations")
    chat.add_argument("--chat", action="store_true",
                      help="each document is a conversation: a list of messages with role and content (a text or a "
                      "list of texts), and perhaps tools; or prompt and completion, each a text or a list of "
                      "messages. The tokenizer's chat template makes text of it. Nothing is added to that: no "
                      "token that begins a text and none that ends a document")
    chat.add_argument("--chat-template", metavar="FILE",
                      help="a Jinja program in place of the chat template in the tokenizer's folder")
    chat.add_argument("--loss-on", choices=LOSS_ON,
                      help="tokens that the loss counts: of the assistant's turns, each with the token that ends it "
                      "(of a completion, where there is one), of the last of them, or all (default: "
                      f"{LOSS_ON[0]}). The template's {{%% generation %%}} marks say where turns begin and end; "
                      "without marks the texts of the first messages do. A conversation without such tokens is left "
                      "out and counted")


def add_run(parser):
    how = parser.add_argument_group("how to run")
    how.add_argument("--out", type=prefix, required=True, metavar="PREFIX",
                     help="writes PREFIX.bin (tokens) and PREFIX.idx (documents); with --chat PREFIX.mask.bin and "
                     "PREFIX.mask.idx, too")
    cores = len(os.sched_getaffinity(0))
    how.add_argument("--processes", type=whole_number(1, 1024, "number of processes"), default=cores,
                     metavar="N",
                     help=f"processes that make tokens (default: one for each core, here {cores}); "
                     "the dataset is the same for any number")
    how.add_argument("--restart", action="store_true",
                     help="begin anew where an earlier build of PREFIX was stopped")


def parse(argv, prog, description):
    """The options. Ends the process where they do not fit together."""
    parser = make_parser(prog, description)
    options = parser.parse_args(argv)
    if options.chat:
        refuse_with_chat(parser, options)
        options.append_eod = False
        options.loss_on = options.loss_on or LOSS_ON[0]
    elif options.loss_on or options.chat_template is not None:
        given = "--loss-on" if options.loss_on else "--chat-template"
        parser.error(f"{given} is for conversations; give --chat, or leave it away")
    if options.field is None:
        options.field = MESSAGES if options.chat else "text"
    for name in ("field", "eod_token"):
        if (given := getattr(options, name)) is not None:
            require_text(f"--{name.replace('_', '-')}", given)
    if options.append_eod is False and options.eod_token is not None:
        parser.error("--eod-token names the end of documents, --no-append-eod wants none; leave "
                     "one away")
    return options


def refuse_with_chat(parser, options):
    if options.tokenizer is None:
        parser.error("--chat needs the --tokenizer whose chat template it takes; --train-tokenizer makes one "
                     "without")
    if options.append_eod is not None or options.eod_token is not None:
        given = "--eod-token" if options.eod_token is not None else "--append-eod"
        parser.error(f"{given} ends documents, and with --chat the chat template alone does that; leave it away")
    if options.format == "text":
        parser.error("--format is text, and --chat reads jsonl or parquet; give one of these")
