"""The load-balancing loss of experts, where a model's configuration asks for it
(output_router_logits).

With f_e the share of routed rows that go to expert e, and p_e its mean probability, over all rows
and all layers with experts, the loss is coef · E · Σ_e f_e · p_e (Switch Transformers, as
transformers has it). f has no gradient, so backward needs f alone:

- "step": f of the whole step, exactly as if its documents were one batch. Every forward pass runs
  before the first backward one, so the stages hold the whole step's inputs, keys and values.
- "micropack": the loss of each MicroPack on each stage by itself, weighted by its share of rows.
"""

import torch

from slimpack import InvalidInput

STEP, MICROPACK = "step", "micropack"


class Routers:
    """The routers of a stage's layers, which note what they decide, but not where they only decide
    it again for a graph that is there.

    total: routers in the whole model. running: the stage's.
    """

    def __init__(self, model, modules, index, total, running):
        self.coefficient = model.router_aux_loss_coef
        self.experts, self.top_k, self.total = model.num_experts, model.num_experts_per_tok, total
        self._index, self._running, self._noted = index, running, []
        for module in modules:
            module.register_forward_hook(self._note)

    def _note(self, _, __, output):
        if not self._running.work.replays:
            self._noted.append(output[self._index] if isinstance(output, tuple) else output)

    def take(self):
        """Logits [rows, experts] by router since the last call."""
        noted, self._noted = self._noted, []
        return noted


def routers_of(model, layers, own, running):
    """The Routers of the layers in the range `own` of a whole model; None = it has no such loss.

    Raises InvalidInput for a family whose routers cannot be told from its code.
    """
    config = model.config.get_text_config()
    wanted = getattr(config, "output_router_logits", False)
    if not wanted or not getattr(model, "router_aux_loss_coef", 0):
        return None
    recorder = (model._can_record_outputs or {}).get("router_logits")
    kind = getattr(recorder, "target_class", recorder)
    if not isinstance(kind, type):
        raise InvalidInput(
            f"{type(model).__name__} does not say which modules are its routers, so their "
            "load-balancing loss cannot be summed over stages; set config.output_router_logits = "
            "False")
    by_layer = [[m for m in layer.modules() if isinstance(m, kind)] for layer in layers]
    mine = [module for i in own for module in by_layer[i]]
    return Routers(model, mine, getattr(recorder, "index", 0), sum(map(len, by_layer)),
                   running)


def require_mode(mode):
    if mode not in (STEP, MICROPACK):
        raise InvalidInput(f"load_balancing is {mode!r}, must be \"{STEP}\" or \"{MICROPACK}\"")


def balance_of(stage, mode, plan):
    """The Balance of a stage in one step; None where the model has no such loss."""
    routers = stage.division.routers
    return None if routers is None else Balance(routers, mode, int(sum(plan.lengths)), stage.device)


class Balance:
    """The load-balancing loss of one step on one stage.

    tokens: of the whole step. loss: so far of this stage; the sum over stages and replicas is the
    step's. counts: after all forward passes, rows by expert; STEP needs their sum over all ranks.
    """

    def __init__(self, routers, mode, tokens, device):
        self._routers, self.mode, self._rows = routers, mode, routers.total * tokens
        self.loss = torch.zeros((), dtype=torch.float64, device=device)
        self.counts = torch.zeros(routers.experts, dtype=torch.float64, device=device)
        routers.take()

    def after_forward(self):
        """Counts what the routers decided. Returns their logits."""
        logits = self._routers.take()
        if self.mode == STEP:
            for of_router in logits:
                self.counts += self._count(of_router)
        return logits

    def root(self, logits=None):
        """The loss of a backward MicroPack, to be differentiated; None without a router. logits: of
        a forward pass whose graph was kept; by default those since then."""
        logits = self._routers.take() if logits is None else logits
        if not logits:
            return None
        probabilities_E = sum(_wide(of.softmax(-1)).sum(0) for of in logits)
        if self.mode == STEP:
            share_E = self.counts / self._rows
        else:
            share_E = sum(map(self._count, logits)) / sum(len(of) for of in logits)
        scale = self._routers.coefficient * probabilities_E.numel() / self._rows
        root = scale * (share_E.to(probabilities_E.dtype) * probabilities_E).sum()
        self.loss += root.detach()
        return root

    def _count(self, logits):
        """By expert the rows that it gets: fp64."""
        chosen = logits.detach().softmax(-1).topk(self._routers.top_k, -1).indices
        return torch.bincount(chosen.flatten(), minlength=logits.shape[-1]).double()


def _wide(tensor):
    return tensor if tensor.dtype == torch.float64 else tensor.float()
