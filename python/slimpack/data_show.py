"""Documents of a dataset as text, where what the loss counts stands between ⟦ and ⟧.

The loss counts every token but the first where a dataset has no mask.
"""

from unicodedata import category

from slimpack import IndexedDataset
from slimpack.command_line import end, exit_code
from slimpack.labelled import IGNORED
from slimpack.one_line_parser import OneLineParser, whole_number
from slimpack.text.errors import BadInput, shown
from slimpack.text.progress import counted
from slimpack.text.tokenizer import load, read_tokenizer

BEGIN, END = "⟦", "⟧"
EPILOG = """example:
  {prog} chats --show 3 --tokenizer Qwen3-0.6B

Without --show: how long documents are, and what the long ones cost.
"""
MAX_SHOWN = 1 << 20


def parse(argv, prog):
    parser = OneLineParser(prog=prog, description=__doc__, epilog=EPILOG.format(prog=prog))
    parser.add_argument("prefix", metavar="PREFIX", help="dataset of PREFIX.bin and PREFIX.idx")
    parser.add_argument("--show", type=whole_number(1, MAX_SHOWN, "number of documents"), required=True,
                        metavar="N", help="how many documents, from the first on")
    parser.add_argument("--tokenizer", metavar="FILE", required=True,
                        help="tokenizer.json that the dataset was built with, or its folder")
    return parser.parse_args(argv)


def marked(library, document):
    """The text of LabelledTokens."""
    tokens, targets = document.tokens.tolist(), (document.labels != IGNORED).tolist()
    borders = [at for at in range(1, len(tokens)) if targets[at] != targets[at - 1]]
    text, told = [], 0
    for begin, close in zip([0, *borders], [*borders, len(tokens)]):
        # A decoder treats the first token in another way, so that all tokens are decoded up to a border.
        piece = library.decode(tokens[:close], skip_special_tokens=False)[told:]
        told += len(piece)
        text.append(f"{BEGIN}{piece}{END}" if targets[begin] else piece)
    return "".join("?" if category(c) == "Cc" and c not in "\n\t" else c for c in "".join(text))


def show(options):
    data = IndexedDataset.open(options.prefix)
    read = read_tokenizer(options.tokenizer, append=False)
    library = load(read.json)
    lengths = data.lengths().tolist()
    for number in range(min(options.show, len(data))):
        document = data.read(number, 0, lengths[number])
        largest = max(document.tokens.tolist(), default=0)
        if largest >= read.vocabulary:
            raise BadInput(f"'{shown(options.tokenizer)}' has {read.vocabulary} tokens, document {number} of "
                           f"'{options.prefix}' has token {largest}; give the tokenizer that it was built with")
        targets = int((document.labels != IGNORED).sum())
        print(f"document {number}: {counted(lengths[number], 'token')}, {counted(targets, 'target')}")
        print(marked(library, document), end="\n\n")


def main(argv=None, prog="slimpack data inspect"):
    """Prints documents as the arguments say. The exit code: 0, 2 for bad input."""
    options = parse(argv, prog)
    return exit_code(lambda: show(options))


if __name__ == "__main__":
    end(main)
