"""`slimpack draft …`: trains draft heads, lets a target write the data for it, and converts heads."""

from slimpack import InvalidInput
from slimpack.command_line import end, exit_code
from slimpack.draft import answers_command, convert_command, train_command
from slimpack.one_line_parser import OneLineParser

DESCRIPTION = """Draft heads for speculative decoding. A head is one layer that guesses the next
tokens of a target model from the target's own hidden states. The target then
checks all guesses in one pass, so that the text stays the target's. Heads are
EAGLE-3's: published ones are read, and ours have their form.
"""
EPILOG = """examples:
  # The target answers prompts, and a head learns from the answers
  slimpack draft answers --target SmolLM2 --prompts prompts.jsonl \\
    --out answers.jsonl
  slimpack draft train --target SmolLM2 --data answers.jsonl --out head
  # Quicker, and less good: a head learns from text
  slimpack draft train --target SmolLM2 --data corpus --out head
"""


def make_parser():
    parser = OneLineParser(prog="slimpack draft", description=DESCRIPTION, epilog=EPILOG)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in (train_command, answers_command, convert_command):
        command.add_to(commands)
    return parser


def main(argv=None):
    """Runs the command. The exit code: 0, 1 for a run that failed on good input, 2 for bad input, 130
    for one that was interrupted."""
    options = make_parser().parse_args(argv)

    def work():
        try:
            return options.run(options)
        except ImportError as error:
            raise InvalidInput(f"draft heads need torch, transformers and safetensors ({error}); pip install "
                               "'slimpack[draft]'") from error

    return exit_code(work, stopped="stopped on request; the same command goes on from here")


if __name__ == "__main__":
    end(main)
