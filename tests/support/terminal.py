"""Programs on a terminal of a given width."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios


def on_terminal(command, columns, errors_too=True, **options):
    """The text that the command writes on a terminal of that width, and its exit code. Without
    `errors_too` its standard error goes to a pipe that nobody reads."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    stderr = theirs if errors_too else subprocess.DEVNULL
    with subprocess.Popen(command, stdout=theirs, stderr=stderr, **options) as process:
        # Linux may lose what it has not handed over when the last writer closes a terminal. So it
        # stays open until the program has ended and nothing more comes.
        written, ended = b"", False
        while not ended:
            ended = process.poll() is not None
            while select.select([ours], [], [], 0.05)[0]:
                written += os.read(ours, 1 << 16)
    os.close(theirs)
    os.close(ours)
    return written.decode(), process.returncode
