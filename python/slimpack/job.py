"""A training job, as far as planning its steps needs to know it."""

import copy
import os
from pathlib import Path

from slimpack import _planner
from slimpack.balancing import require_positive
from slimpack.comparison import Comparison
from slimpack.files import read_text
from slimpack.fit import Fit
from slimpack.lengths import as_lengths
from slimpack.numbers import INT32, whole
from slimpack.search import Layouts, Sweep
from slimpack.settings import (
    hardware_settings,
    model_settings,
    parallel_settings,
    plan_settings,
    setting,
)
from slimpack.step_plan import StepPlan


class Job:
    """Everything that does not change from step to step: the model, the ranks, the machine, the limits.

    model: a `config.json`, a folder with one, a name that comes with slimpack ("llama-3-8b"), a dict, or
        a transformers config.
    parallel: {"pp": stages, "dp": replicas, "tp": tensor-parallel ranks of a stage}, all 1 by default.
    hardware: a hardware file, a name that comes with slimpack ("h100"), or a dict of its figures.
    run: a run configuration (TOML), whose settings the other arguments override.
    cost: a cost file that `slimpack profile` measured, instead of hardware.
    dtype: "bf16" (default without `run`), "fp32" or "fp64".
    context: the most tokens of a sequence; the longest one's by default. Baselines fill packs to it.
    memory_cap: activations of a rank, in bytes or "40GiB", "none" = any; by default what its memory
        leaves beside weights, gradients and optimizer.
    target_share: of the tokens that the loss counts, such as 0.3 where 70% are prompts; all by default.
    adapter_rank: of LoRA on every linear map of the layers of a frozen model, as PEFT's "all-linear"; by
        default all weights are trained. A cost file says itself what is trained.
    Further keywords are the keys of [plan]: planner, granularity, most_merged, recompute, backward,
    cuts, solver, time_budget.

    Raises InvalidInput.
    """

    def __init__(self, model=None, parallel=None, hardware=None, *, run=None, cost=None, dtype=None,
                 context=None, memory_cap=None, target_share=None, adapter_rank=None,
                 **plan_options):
        self.context = context
        self.name = "job" if run is None else os.fspath(run)
        settings, config_json = model_settings(model)
        settings += parallel_settings(parallel) + hardware_settings(hardware)
        if cost is not None:
            settings.append(setting("cost.file", Path(cost)))
        if dtype is not None or run is None:
            settings.append(setting("train.dtype", dtype or "bf16"))
        if run is None:  # GPUs: offloading is possible; 1 token keeps every model's positions
            settings += [setting("train.device", "cuda"), setting("data.context", context or 1)]
        elif context is not None:
            settings.append(setting("data.context", context))
        if target_share is not None:
            settings.append(setting("data.target_share", target_share))
        if adapter_rank is not None:
            require_positive("adapter_rank", adapter_rank)
            settings.append(setting("model.adapter_rank", adapter_rank))
        settings += plan_settings({**plan_options, "memory_cap": memory_cap})
        self._has_run = run is not None
        self._source = ("" if run is None else read_text(run, "run configuration"), self.name, settings,
                        "." if run is None else str(Path(run).parent), config_json)
        self._planning = _planner.Planning(*self._source)

    def plan(self, lengths, *, progress=None):
        """Plans one step of sequences of these lengths: a StepPlan.

        progress: called with the number of candidates looked at, about twenty times a second.
        Raises InvalidInput, also where no plan fits the memory.
        """
        return StepPlan(self._planning.plan(as_lengths(lengths), self.context or 0, progress))

    def compare(self, lengths, *, planners=None, progress=None):
        """Rates the step as planned here and as by what users run today: a Comparison.

        planners: some of planner_names(); all by default. progress: called with each one's name.
        """
        known = _planner.planner_names()
        for name in planners or ():
            if name not in known:
                raise _planner.InvalidInput(
                    f"planner {name!r} is unknown; give some of {', '.join(known)}")
        return Comparison(*self._planning.compare(
            as_lengths(lengths), self.context or 0, list(planners or known),
            progress or (lambda name: None)))

    def fit(self, lengths, *, progress=None):
        """Says whether the job fits its machine, and which small changes would make it fit: a Fit.

        progress: called with the number of candidates looked at.
        """
        return Fit(*self._planning.fit(as_lengths(lengths), self.context or 0, progress))

    def steps(self, documents, steps=1, step_tokens=None):
        """The first steps that training draws from documents of these lengths: a list of arrays, each
        the lengths of one step's sequences. So `slimpack plan --lengths … --steps N` draws them.

        step_tokens: sequences are drawn until a step has so many; by default data.step_tokens of the
        run. Documents longer than the context become several sequences.
        """
        documents = as_lengths(documents)
        if self.context is None and not self._has_run:
            context = int(documents.max(initial=1))
        else:
            context = self.context or 0  # 0 = the run's own
        require_positive("steps", steps)
        require_positive("step_tokens", step_tokens)
        return self._planning.steps(documents, steps, step_tokens or 0, context)

    def layout(self, lengths, *, ranks=None, steps=None, step_tokens=None, progress=None):
        """Finds the tp × pp × dp on which steps like these train fastest: Layouts.

        ranks: GPUs to share out; by default those of `parallel`. lengths: of one step; with steps or
        step_tokens of documents, from which so many steps (4 by default) are drawn as `steps` draws
        them. progress: called with the number of candidates looked at.
        Raises InvalidInput.
        """
        planned = self._steps_of(lengths, steps, step_tokens, 4)
        return Layouts(*self._planning.layouts(planned, self.ranks if ranks is None else ranks,
                                               self.context or 0, progress))

    def sweep(self, lengths, over, *, steps=None, step_tokens=None, progress=None):
        """Plans the step with every combination of values: a Sweep.

        over: {"packs": [16, 32, 64], "pp": [2, 4]}: keys of a run file, or the search's packs, taper
        and order. lengths: of one step; with steps or step_tokens of documents, as in `layout`, one
        step by default. progress: called with the number of candidates looked at.
        Raises InvalidInput.
        """
        planned = self._steps_of(lengths, steps, step_tokens, 1)
        axes = [f"{name}={','.join(map(str, values))}" for name, values in over.items()]
        return Sweep(*_planner.sweep(*self._source, planned, axes, self.context or 0, progress))

    def _steps_of(self, lengths, steps, step_tokens, usual):
        if steps is None and step_tokens is None:
            return [as_lengths(lengths)]
        return self.steps(lengths, usual if steps is None else steps, step_tokens)

    def sequence_costs(self, lengths):
        """Nanoseconds of each sequence's forward and backward pass over the whole model: float64."""
        return self._planning.sequence_costs(as_lengths(lengths))

    @property
    def ranks(self):
        """How many ranks train: pp · dp · tp."""
        return self._planning.ranks

    def stages_for(self, lengths):
        """The layers of each stage that suit steps like one of these lengths: a list. Stage s holds
        those from its entry s to before entry s + 1."""
        return self._planning.stages_for(as_lengths(lengths), self.context or 0)

    def with_stages(self, layer_begin):
        """This job with the same layers of each stage in every step, as a run has them that has
        loaded its weights. By default each step's lengths decide.

        Raises InvalidInput unless layer_begin rises from 0 to the model's layers.
        """
        job = copy.copy(self)
        job._planning = self._planning.with_stages([
            whole("layer_begin", layer, -INT32, INT32) for layer in layer_begin])
        return job

    @property
    def parameters(self):
        """Parameters of the model, with its adapters."""
        return self._planning.parameters

    @property
    def trained_parameters(self):
        """Parameters that are trained: all, or those of adapters."""
        return self._planning.trained_parameters

    @property
    def untrainable(self):
        """Features of the model that SlimPack's own runtime cannot train; [] = it can."""
        return self._planning.untrainable

    def __repr__(self):
        trained = self.trained_parameters
        part = "" if trained == self.parameters else f", {trained / 1e9:.3g} B of them trained,"
        return f"<slimpack.Job: {self.parameters / 1e9:.3g} B parameters{part} on {self.ranks} ranks>"


def plan(lengths, model=None, parallel=None, hardware=None, *, progress=None, **settings):
    """Plans one step: Job(model, parallel, hardware, **settings).plan(lengths)."""
    return Job(model, parallel, hardware, **settings).plan(lengths, progress=progress)


def layout(lengths, model=None, hardware=None, *, ranks, steps=None, step_tokens=None, progress=None,
           **settings):
    """Finds the best tp × pp × dp of so many ranks: Job(model, None, hardware, …).layout(lengths, …).

    Backwards may be split and layers compute again what suits them, as in `slimpack layout` without a
    run file, unless settings say otherwise.
    """
    if settings.get("run") is None:
        settings = {"backward": "split", "recompute": "auto", **settings}
    return Job(model, None, hardware, **settings).layout(
        lengths, ranks=ranks, steps=steps, step_tokens=step_tokens, progress=progress)


def sweep(lengths, model=None, parallel=None, hardware=None, *, over, steps=None, step_tokens=None,
          progress=None, **settings):
    """Plans a step with every combination of values: Job(model, …).sweep(lengths, over)."""
    return Job(model, parallel, hardware, **settings).sweep(
        lengths, over, steps=steps, step_tokens=step_tokens, progress=progress)


def fit(lengths, model=None, parallel=None, hardware=None, *, progress=None, **settings):
    """Says whether a job fits its machine: Job(model, parallel, hardware, **settings).fit(lengths)."""
    return Job(model, parallel, hardware, **settings).fit(lengths, progress=progress)


def compare(lengths, model=None, parallel=None, hardware=None, *, planners=None, progress=None,
            **settings):
    """Rates one step under several planners: Job(model, …).compare(lengths, planners=…)."""
    return Job(model, parallel, hardware, **settings).compare(lengths, planners=planners,
                                                              progress=progress)
