"""The lines that the Trainer prints: those of `slimpack train`
(tests/training/train_text_test.cpp)."""

import pytest
from slimpack.torch.pipeline.metrics import Place, evaluation_line, step_line

# 36,800 tokens in 4.6 s are 8.0 k a second.
FIGURES = {"step": 2, "loss": 5.23391, "step_ns": 4_600_000_000, "bubble": 0.037,
           "predicted_bubble": 0.032, "peak_activation_bytes": [200 << 20, 180 << 20],
           "tokens": 36_800, "sequences": 9, "targets": 36_791, "documents": 8,
           "planning_wait_ns": 0}
# 2 of 20 steps in 9.6 s leave 18 · 4.8 s = 86.4 s.
EARLY = Place(0, 20, 9_600_000_000)
WHOLE = ("step  2/20  loss 5.2339  1 m 26 s left  8.0 k tok/s  bubble 3.7% (predicted 3.2%)  "
         "peak 200 MiB  36.8 k tok in 8 docs")


def test_a_line_has_what_fits():
    assert step_line(FIGURES, EARLY) == WHOLE
    assert step_line(FIGURES, EARLY, len(WHOLE)) == WHOLE
    assert step_line(FIGURES, EARLY, 80) == (
        "step  2/20  loss 5.2339  1 m 26 s left  8.0 k tok/s  bubble 3.7%")


def test_the_line_of_the_last_step_says_how_long_all_took():
    # Ten steps were done before this start, which took 46 s for the other ten.
    line = step_line({**FIGURES, "step": 20, "loss": 3.7}, Place(10, 20, 46_000_000_000), 60)
    assert line == "step 20/20  loss 3.7000  took 46.0 s  8.0 k tok/s"


def test_a_line_has_mfu_where_it_is_known_and_targets_where_labels_leave_some_out():
    line = step_line({**FIGURES, "mfu": 0.412, "targets": 12_100}, EARLY)
    assert line == WHOLE.replace("tok/s", "tok/s  MFU 41.2%").replace(" tok in", " tok (12.1 k targets) in")


@pytest.mark.parametrize("wait, told", [(999_999, ""), (1_000_000, "  waited 1.0 ms for the plan")])
def test_a_wait_for_the_plan_is_told_from_a_millisecond_on(wait, told):
    assert step_line({**FIGURES, "planning_wait_ns": wait}, EARLY) == WHOLE + told


def test_an_evaluation_has_a_line():
    figures = {"step": 2, "evaluation_loss": 4.5, "evaluation_tokens": 131_072,
               "evaluation_documents": 40, "evaluation_ns": 12_300_000}
    assert evaluation_line(figures) == (
        "evaluation after step 2: loss 4.5000 on 131 k tok in 40 docs, took 12.3 ms")
