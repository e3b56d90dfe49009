"""How commands of Python end: exit code, one line, and a standard output that is full, closed, left alone or
of another encoding."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest
from processes import PATIENCE, environment
from slimpack import InvalidInput
from slimpack.command_line import exit_code
from slimpack.text.errors import Failed


def raising(error):
    def work():
        raise error
    return work


@pytest.mark.parametrize("error, code, line", [
    (InvalidInput("rows is 0, must be 1"), 2, "rows is 0, must be 1"),
    (InvalidInput("'a\nb' is no name\n"), 2, "'a?b' is no name"),
    (InvalidInput("'\x1b[31m\udcff' is no name"), 2, r"'?[31m\udcff' is no name"),
    (ImportError("No module named 'x'"), 2, "No module named 'x'"),
    (Failed("the disk is full"), 1, "failed: the disk is full"),
    (RuntimeError(), 1, "failed: RuntimeError"),
    (OSError(28, "No space left on device", "/tmp/x"), 1,
     "failed: '/tmp/x': No space left on device; check the path and the space there"),
    (PermissionError(13, "Permission denied", "/x"), 2,
     "'/x': Permission denied; check the path and the space there"),
    (MemoryError("std::bad_alloc"), 1, "failed: no memory is left; ask for less at a time, or free some"),
    (RuntimeError("can't start new thread"), 1,
     "failed: cannot start another thread or process; the system allows"),
    (BlockingIOError(11, "Resource temporarily unavailable"), 1,
     "failed: cannot start another thread or process; the system allows"),
])
def test_an_error_is_one_line_and_an_exit_code(capsys, error, code, line):
    assert exit_code(raising(error)) == code
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith(f"slimpack: {line}") and said.err.count("\n") == 1


def test_an_error_of_the_program_itself_names_its_place(capsys):
    assert exit_code(lambda: {}["x"]) == 1
    assert "failed: KeyError: 'x' at command_line_test.py:" in capsys.readouterr().err


def test_success_and_ctrl_c_have_codes_of_their_own(capsys):
    assert exit_code(lambda: None) == 0
    assert exit_code(lambda: 3) == 3
    assert exit_code(raising(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err == ""
    assert exit_code(raising(KeyboardInterrupt()), stopped="stopped") == 130
    assert capsys.readouterr().err == "slimpack: stopped\n"


def command(body, **options):
    """A command of the body, in a process of its own."""
    program = ("import sys, time\nfrom slimpack.command_line import end, exit_code\ndef main():\n"
               + textwrap.indent(textwrap.dedent(body), "    ") + "\nend(lambda: exit_code(main))\n")
    return subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True,
                            **{"env": environment(), **options})


def ended(process):
    _, err = process.communicate(timeout=PATIENCE)
    return process.returncode, err


LONG = "for _ in range(1000): print('x' * 1000)"


@pytest.mark.parametrize("body", [LONG, "print('x', flush=True)", "print('x')"])
def test_a_full_output_is_one_line(body):
    with open("/dev/full", "w") as full:
        assert ended(command(body, stdout=full)) == (
            1, "slimpack: failed: cannot write to standard output: No space left on device; redirect it "
            "elsewhere\n")


@pytest.mark.parametrize("body", [LONG, "print('x')"])
def test_a_closed_output_is_one_line(body):
    code, err = ended(command(body, preexec_fn=lambda: os.close(1)))
    assert code == 1
    assert err == "slimpack: failed: cannot write to standard output: Bad file descriptor; redirect it elsewhere\n"


@pytest.mark.parametrize("body", [LONG, "print('x')"])
def test_a_reader_that_has_seen_enough_ends_it_without_a_word(body):
    reader, writer = os.pipe()
    os.close(reader)
    process = command(body, stdout=writer)
    os.close(writer)
    assert ended(process) == (-signal.SIGPIPE, "")


def test_messages_that_nobody_takes_change_nothing():
    with open("/dev/full", "w") as full:
        with command("print('x' * 100000, file=sys.stderr); print('done')", stdout=subprocess.PIPE) as process:
            process.stderr.close()
            assert process.stdout.read() == "done\n" and process.wait(PATIENCE) == 0
        process = subprocess.run(
            [sys.executable, "-c", "import sys\nfrom slimpack.command_line import end\n"
             "end(lambda: print('x', file=sys.stderr))"], stderr=full, env=environment(), check=False)
        assert process.returncode == 0


@pytest.mark.parametrize("encoding, written", [
    ("utf-8", "Grüße 🙂 \\udcff".encode()), ("latin-1", b"Gr\xfc\xdfe \\U0001f642 \\udcff"),
    ("ascii", b"Gr\\xfc\\xdfe \\U0001f642 \\udcff"), ("ascii:strict", b"Gr\\xfc\\xdfe \\U0001f642 \\udcff")])
def test_text_that_the_encoding_of_the_output_lacks_is_escaped(encoding, written):
    process = command(r"print('Grüße \U0001f642 \udcff')", stdout=subprocess.PIPE,
                      env={**environment(), "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"})
    assert process.stdout.buffer.read() == written + b"\n"
    assert ended(process) == (0, "")


def test_ctrl_c_is_130_and_no_trace():
    process = command("print('begun', flush=True); time.sleep(100)", stdout=subprocess.PIPE)
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    assert ended(process) == (130, "")
