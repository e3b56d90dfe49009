"""Options of the commands that Python runs, refused as the C++ program refuses its own: in one line."""

import argparse
import difflib
import sys


class OneLineParser(argparse.ArgumentParser):
    """Ends the process with exit code 2 and one line for a mistake. Options are never abbreviated."""

    def __init__(self, **options):
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
                         **options)

    def parse_known_args(self, args=None, namespace=None):
        """Refuses an unknown option before argparse finds that others are missing."""
        self._refuse_unknown(sys.argv[1:] if args is None else args)
        return super().parse_known_args(args, namespace)

    def _refuse_unknown(self, args):
        if self._subparsers is not None:  # options follow the command, whose parser knows them
            return
        for word in args:
            name = word.partition("=")[0]
            if name.startswith("--") and name != "--" and name not in self._option_string_actions:
                near = difflib.get_close_matches(name, self._option_string_actions, 1)
                self.error(f"unknown option '{name}'" + (f"; did you mean '{near[0]}'?" if near else ""))

    def error(self, message):
        self.exit(2, f"slimpack: {message}; try '{self.prog} --help'\n")


def whole_number(low, high, what):
    """The type of an option: a whole number from low to high."""
    def number(text):
        if not text.isdecimal() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"'{text}' is no {what}; give {low} to {high}")
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
            raise argparse.ArgumentTypeError(f"'{text}' is no {what}; give {low:g} to {high:g}")
        return value
    return number
