"""The command line: `python -m slimpack …` is the program `slimpack …`."""

import os
import sys
from pathlib import Path

from slimpack import runtime
from slimpack.command_line import INVALID, say

PROGRAM = Path(__file__).parent / "bin" / "slimpack"


def require_torch():
    """Ends with one line where the command trains and the torch that it needs is not there."""
    if sys.argv[1:2] not in (["train"], ["profile"]) or {"-h", "--help"} & set(sys.argv):
        return
    try:
        runtime.check_torch()
    except ImportError as error:
        say(str(error))
        sys.exit(INVALID)


def main():
    require_torch()
    environment = {"SLIMPACK_PYTHON": sys.executable, **os.environ}
    try:
        os.execve(PROGRAM, ["slimpack", *sys.argv[1:]], environment)
    except OSError as error:
        say(f"cannot start {PROGRAM}: {error.strerror}; install slimpack again")
        sys.exit(INVALID)


if __name__ == "__main__":
    main()
