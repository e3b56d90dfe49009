"""How the commands that Python runs end: as those of the C++ program do, with one line and its exit codes.

A command's `main(argv)` parses the arguments and returns `exit_code(work)`. The process of a command calls
`end(main)`, which guards its standard streams, too.
"""

import errno
import io
import os
import signal
import sys
import traceback

from slimpack import InvalidInput, _planner
from slimpack.text.errors import FULL, shown

FAILED, INVALID, INTERRUPTED = 1, 2, 130  # exit codes


class OutputFailed(RuntimeError):
    """Standard output takes nothing more."""


def say(text):
    """Writes the text to standard error as one line that begins with the program's name."""
    print(f"slimpack: {one_line(text)}", file=sys.stderr)


def one_line(text):
    """The text with '?' for every control character, because values that messages quote may hold line ends,
    and with what is no character escaped."""
    text = "".join("?" if ord(c) < 0x20 or ord(c) == 0x7F else c for c in text)
    return text.encode(errors="backslashreplace").decode()


def exit_code(work, stopped=None):
    """Calls work() and returns its exit code, 0 for None. Where it raises, says why in one line, and returns
    2 for bad input, 130 for Ctrl-C, 1 for a failure on good input.

    stopped: what to say of a Ctrl-C.
    """
    try:
        code = work() or 0
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        if stopped is not None:
            say(stopped)
        return INTERRUPTED
    except Exception as error:
        code, line = _verdict(error)
        say(line if code == INVALID else f"failed: {line}")
        return code


def end(main):
    """Ends the process with main()'s exit code. A reader of standard output that has seen enough ends it
    silently, as SIGPIPE ends other programs. Text that the encoding of standard output lacks is escaped."""
    _open_standard_streams()
    sys.stdout, sys.stderr = _guarded(sys.stdout, _Output(1, "wb", closefd=False)), _guarded(
        sys.stderr, _Messages(2, "wb", closefd=False))

    def work():
        try:
            return main()
        except SystemExit as ended:  # of the parser, which has said why
            return ended.code

    code = exit_code(work)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left to interrupt
    sys.exit(code)


def _verdict(error):
    """(exit code, line) of what a command raised."""
    if isinstance(error, (InvalidInput, ImportError)):
        return INVALID, str(error).strip()
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    if "can't start new thread" in text or getattr(error, "errno", None) == errno.EAGAIN:
        return FAILED, f"cannot start another thread or process; {_planner.thread_limits()}"
    if isinstance(error, MemoryError):
        return FAILED, "no memory is left; ask for less at a time, or free some"
    if isinstance(error, OSError) and error.errno is not None:
        named = "" if error.filename is None else f"'{shown(error.filename)}': "
        code = FAILED if error.errno in FULL else INVALID
        return code, f"{named}{error.strerror}; check the path and the space there"
    if isinstance(error, (OSError, RuntimeError)):
        return FAILED, text
    place = traceback.extract_tb(error.__traceback__)[-1]
    return FAILED, (f"{type(error).__name__}: {text} at {os.path.basename(place.filename)}:{place.lineno}, "
                    "an error of this program; report it")


def _open_standard_streams():
    """Files that are opened later must not take the numbers of streams that are closed. Each opens the wrong
    way round, so that its use fails."""
    for stream, mode in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(stream)
        except OSError:
            os.open(os.devnull, mode)  # takes the lowest free number


def _guarded(stream, raw):
    """A text stream on `raw` in place of one of Python's, None where that was closed."""
    encoding = "utf-8" if stream is None else stream.encoding
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=encoding, errors="backslashreplace",
                            line_buffering=raw.fileno() == 2 or raw.isatty())


class _Output(io.FileIO):
    """Standard output. Its failure is raised once; what is written afterwards is dropped."""

    failed = False

    def write(self, data):
        if self.failed:
            return len(data)
        try:
            return super().write(data)
        except BrokenPipeError:
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGPIPE)
            raise  # where the signal is blocked
        except OSError as error:
            self.failed = True
            raise OutputFailed(f"cannot write to standard output: {error.strerror}; redirect it elsewhere") \
                from None


class _Messages(io.FileIO):
    """Standard error. Messages that it does not take are dropped."""

    def write(self, data):
        try:
            return super().write(data)
        except OSError:
            return len(data)
