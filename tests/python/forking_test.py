"""Jobs of forked processes end and say what they would in processes of their own."""

import signal

from forking import forked_job

SCRIPT = """
import os, signal, sys
print("rank", os.environ["RANK"], *sys.argv[1:], "torch" in sys.modules, flush=True)
if sys.argv[1] == "raise":
    raise ValueError("no number")
if sys.argv[1] == "wait":
    signal.pause()
sys.exit(3)
"""


def test_forks_have_codes_signals_and_one_log(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    with forked_job(tmp_path, *([script, how] for how in ("exit", "raise", "wait"))) as processes:
        for line in ("rank 0 exit True", "rank 1 raise True", "rank 2 wait True", "ValueError: no number"):
            processes.wait_for(line)
        processes.signal(2, signal.SIGKILL)
        assert processes.codes() == [3, 1, -signal.SIGKILL]
        processes.signal(2, signal.SIGKILL)  # one that has ended gets none
