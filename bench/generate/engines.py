"""The engines that rivals.py measures, each in a process of its own: they bring other versions of OpenMP,
and llama.cpp has an interpreter of its own.

An engine is a module with

    choices(precision)                              by setting the values to try, the usual one first
    Session(folder, precision, settings, longest)   loads a model; at most `longest` tokens
    Session.generate(prompt, count)                 "first_seconds" to the first token, "decode_seconds"
                                                    for the other count − 1, and the "tokens"; greedy
    Session.about()                                 versions
    Session.close()                                 frees what Python does not

`generate` tells both times at once because transformers' does, and because a speculative engine yields
several tokens at a time.
"""

import json
import subprocess
import sys
from pathlib import Path

import llama_cpp_build

WORKER = Path(__file__).resolve().parent / "engine_worker.py"
ENGINES = ("slimpack", "transformers", "llama.cpp")
TAIL = 5  # lines of the log that explain a failure


def interpreter(engine, out):
    return llama_cpp_build.python_of(out / "llama.cpp") if engine == "llama.cpp" else sys.executable


class Engine:
    """A process that has one session at a time."""

    def __init__(self, name, log_file, out):
        """`out`: what prepare.py made. Libraries' messages go to `log_file`."""
        self.name, self.log = name, log_file
        with log_file.open("w") as log:
            self.process = subprocess.Popen(
                [interpreter(name, out), WORKER, "engine_" + name.replace(".", "_")],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)

    def call(self, function, **arguments):
        """Raises RuntimeError with the end of the log when the engine fails."""
        try:
            self.process.stdin.write(json.dumps({"call": function, **arguments}) + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())
        except (BrokenPipeError, json.JSONDecodeError):
            last = self.log.read_text(errors="replace").splitlines()[-TAIL:]
            raise RuntimeError(f"{self.name} failed; {self.log} ends with\n" + "\n".join(last)) from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
