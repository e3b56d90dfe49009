"""Runs commands of the Python package, each in a process of its own that forks from one in which all
libraries are loaded, so that a command starts in moments.

    command_server.py < JSON lines > JSON lines
"""

import contextlib
import io
import json
import os
import select
import subprocess
import sys
import tempfile
import traceback
from dataclasses import dataclass, field

MODULES = {"draft": "slimpack.draft.__main__", "generate": "slimpack.generation.command",
           "build": "slimpack.data_build", "show": "slimpack.data_show", "tensorboard": "slimpack.tensorboard",
           "worker": "slimpack.worker"}
PATIENCE = 120  # seconds: a hang, on any machine


@dataclass
class Ended:
    """The end of a command, with the fields of subprocess.CompletedProcess."""

    returncode: int
    stdout: bytes = field(repr=False)
    stderr: str


@contextlib.contextmanager
def command_server(environment):
    """A function run(command, arguments, folder, encoding, stdout): Ended. command: of MODULES. folder: where
    it runs. encoding: of standard output. stdout: "file", "full", "closed" or "gone", a pipe that nobody reads."""
    with subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          env=environment) as server:
        def run(command, arguments, folder, encoding, stdout):
            asked = json.dumps([command, list(map(str, arguments)), str(folder), encoding, stdout])
            server.stdin.write(asked.encode() + b"\n")
            server.stdin.flush()
            assert select.select([server.stdout], [], [], PATIENCE)[0], f"hangs: {asked}"
            code, out, err = json.loads(server.stdout.readline())
            return Ended(code, out.encode("latin-1"), err)

        try:
            yield run
        finally:
            server.kill()


def open_stdout(kind, file):
    """Makes 1 what the kind says."""
    if kind == "closed":
        os.close(1)
        return
    if kind == "gone":
        reader, writer = os.pipe()
        os.close(reader)
    else:
        writer = os.open("/dev/full", os.O_WRONLY) if kind == "full" else file.fileno()
    os.dup2(writer, 1)


def become(command, arguments, folder, encoding, kind, out, err):
    """The forked process. Never returns."""
    from importlib import import_module

    from slimpack.command_line import end
    code = 99
    try:
        os.chdir(folder)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(err.fileno(), 2)
        open_stdout(kind, out)
        sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False))
        sys.stdout = None if kind == "closed" else io.TextIOWrapper(
            io.FileIO(1, "w", closefd=False), encoding=encoding)
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), errors="backslashreplace")
        main = import_module(MODULES[command]).main
        end(lambda: main(arguments))
    except SystemExit as ended:
        code = ended.code or 0
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def serve():
    import torch
    import transformers  # noqa: F401
    from slimpack import runtime

    runtime.load()
    torch.set_num_threads(1)  # threads do not survive a fork
    for line in sys.stdin.buffer:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = os.fork()
            if child == 0:
                become(*json.loads(line), out, err)
            _, status = os.waitpid(child, 0)
            for file in (out, err):
                file.seek(0)
            said = [os.waitstatus_to_exitcode(status), out.read().decode("latin-1"),
                    err.read().decode(errors="backslashreplace")]
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
