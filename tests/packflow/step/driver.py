"""Steps for the C++ side: a folder that describes one, and the program that runs it."""

import json
import os
import select
import subprocess
from pathlib import Path

from hugging_face import public
from safetensors.torch import load_file, save_file

BUILD = Path(os.environ.get("SLIMPACK_BUILD", "build/release")).resolve()
DRIVER = BUILD / "tests" / "packflow" / "step_driver"
PATIENCE = 60  # seconds: a hang, on any machine


class StepDriver:
    """One running program for the steps of many tests: libtorch takes longer to load than most steps."""

    def __init__(self):
        self.process = None

    def run(self, file):
        """Fails with what the program says."""
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen([DRIVER], text=True, stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.process.stdin.write(f"{file}\n")
        self.process.stdin.flush()
        answers, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        answer = self.process.stdout.readline() if answers else "no answer\n"
        if answer != "done\n":
            self.process.kill()
            rest = self.process.communicate()[0]
            raise AssertionError(f"step_driver: {answer}{rest}")


driver = StepDriver()


def write_step(folder, model, sequences, plan, dtype, steps=0):
    """Writes the input of the driver: FOLDER/step.json, and the model beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    model.config.save_pretrained(folder)
    state = public(model, model.state_dict())
    if model.config.tie_word_embeddings:
        state.pop("lm_head.weight", None)
    save_file(state, folder / "model.safetensors")
    step = dict(plan, config=str(folder / "config.json"), weights=str(folder / "model.safetensors"),
                dtype=dtype, sequences=sequences, steps=steps, out=str(folder / "out.safetensors"))
    (folder / "step.json").write_text(json.dumps(step))


def run_driver(folder, model, sequences, plan, dtype, steps=0):
    """Loss, gradients and weights by name."""
    write_step(folder, model, sequences, plan, dtype, steps)
    driver.run(folder / "step.json")
    return load_file(folder / "out.safetensors")
