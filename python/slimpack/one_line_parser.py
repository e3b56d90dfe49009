"""Options of the commands that Python runs, refused as the C++ program refuses its own: in one line."""

import argparse
import difflib
import sys

from slimpack.command_line import INVALID, say

_SHOWN = 60  # characters of a value in a message


class OneLineParser(argparse.ArgumentParser):
    """Ends the process with exit code 2 and one line for a mistake. Options are never abbreviated."""

    def __init__(self, **options):
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
                         **options)

    def parse_known_args(self, args=None, namespace=None):
        """Prints the help wherever it is asked for, and refuses an unknown option before argparse finds that
        others are missing."""
        args = sys.argv[1:] if args is None else list(args)
        if self._subparsers is None:  # else options follow the command, whose parser knows them
            options = args[: args.index("--")] if "--" in args else args
            if "--help" in options or "-h" in options:
                self.print_help()
                self.exit()
            self._refuse_unknown(options)
        return super().parse_known_args(args, namespace)

    def _refuse_unknown(self, options):
        for word in options:
            name = word.partition("=")[0]
            if name.startswith("--") and name not in self._option_string_actions:
                near = difflib.get_close_matches(name, self._option_string_actions, 1)
                self.error(f"unknown option '{name}'" + (f"; did you mean '{near[0]}'?" if near else ""))

    def error(self, message):
        say(f"{message}; try '{self.prog} --help'")
        self.exit(INVALID)


def whole_number(low, high, what):
    """The type of an option: a whole number from low to high."""
    def number(text):
        # Python refuses to read numbers of thousands of digits.
        if not text.isdecimal() or len(text) > _SHOWN or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"'{text[:_SHOWN]}' is no {what}; give {low} to {high}")
        return int(text)
    return number


def real_number(low, high, what):
    """The type of an option: a number from low to high."""
    def number(text):
        try:
            value = float(text)
        except ValueError:
            value = None
        if value is None or not low <= value <= high:
            raise argparse.ArgumentTypeError(
                f"'{text[:_SHOWN]}' is no {what}; give {low:g} to {high:g}")
        return value
    return number
