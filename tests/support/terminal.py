"""Programs on a terminal of a given width."""

import fcntl
import os
import pty
import struct
import subprocess
import termios


def on_terminal(command, columns, errors_too=True, **options):
    """What the command writes on a terminal of that width, and its exit code. Without `errors_too`
    its standard error goes to a pipe that nobody reads."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    stderr = theirs if errors_too else subprocess.DEVNULL
    with subprocess.Popen(command, stdout=theirs, stderr=stderr, **options) as process:
        os.close(theirs)
        written = b""
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # the last writer has closed it
                break
            if not part:
                break
            written += part
    os.close(ours)
    return written.decode(), process.returncode
