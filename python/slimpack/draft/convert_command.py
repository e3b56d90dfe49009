"""`slimpack draft convert`."""

from slimpack.draft.files import load_head, save_head

DESCRIPTION = """Reads a head in any published form (EAGLE-3's or speculators' names,
model.safetensors or pytorch_model.bin) and writes it as config.json and
model.safetensors with EAGLE-3's names, in fp32.
"""
EPILOG = """example:
  slimpack draft convert EAGLE3-LLaMA3.1-Instruct-8B --out heads/llama-3.1-8b
"""


def add_to(commands):
    parser = commands.add_parser("convert", help="write a published head as safetensors",
                                 description=DESCRIPTION, epilog=EPILOG)
    parser.set_defaults(run=run)
    parser.add_argument("head", metavar="FOLDER", help="the head to read")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="where it goes")


def run(options):
    head = load_head(options.head)
    save_head(head, options.out)
    print(f"{options.out}: {sum(p.numel() for p in head.parameters()):,} parameters, guesses "
          f"{head.config.draft_vocab_size:,} of {head.config.vocab_size:,} tokens")
    return 0
