"""The command line: `python -m slimpack …` is the program `slimpack …`."""

import os
import sys
from pathlib import Path

PROGRAM = Path(__file__).parent / "bin" / "slimpack"


def main():
    environment = {"SLIMPACK_PYTHON": sys.executable, **os.environ}
    try:
        os.execve(PROGRAM, ["slimpack", *sys.argv[1:]], environment)
    except OSError as error:
        sys.exit(f"slimpack: cannot start {PROGRAM}: {error.strerror}; install slimpack again")


if __name__ == "__main__":
    main()
