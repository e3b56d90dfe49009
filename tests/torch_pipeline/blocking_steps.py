"""Steps of a pipeline's processes on the stand-in for NCCL in tests."""

import blocking
import numpy as np
import pipeline_worker
from slimpack.torch.pipeline.failure import RunFailed


def step_on_both(patience, way, synchronising, seed, settings):
    """A random step over Gloo and then on the stand-in: "ended" where both have the same bits, or
    why the second one ended."""
    loss, gradients = pipeline_worker.step("llama", seed, settings)
    blocking.take_over(patience, way, synchronising)
    try:
        found, arrays = pipeline_worker.step("llama", seed, settings)
    except RunFailed as error:
        return "; ".join(causes_of(error))
    assert found == loss and arrays.keys() == gradients.keys()
    assert all(np.array_equal(arrays[name], gradients[name]) for name in gradients)
    return "ended"


def causes_of(error):
    while error is not None:
        yield str(error)
        error = error.__context__
