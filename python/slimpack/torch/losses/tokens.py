"""Ready losses of tokens. Each is called with Rows and returns (loss by row, {metric: by row})."""

import dataclasses

import torch

from slimpack import InvalidInput

TOKEN, DOCUMENT, SUM = "token", "document", "sum"  # what the loss of a step is the mean of; SUM = of nothing


def require_mean(mean):
    if mean not in (TOKEN, DOCUMENT, SUM):
        raise InvalidInput(f'a loss has mean {mean!r}, must be "{TOKEN}", "{DOCUMENT}" or "{SUM}"')


def require_number(name, value, low, high=float("inf"), *, above=False):
    """Raises InvalidInput unless a setting is a finite number from low, or above it, to high."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not (number and (low < value if above else low <= value) and value <= high and value < float("inf")):
        limit = f"above {low}" if above else f"from {low}"
        raise InvalidInput(f"{name} is {value!r}, must be {limit}" + (f" to {high}" if high < float("inf") else ""))


@dataclasses.dataclass(frozen=True)
class CrossEntropy:
    """The cross-entropy of the targets.

    label_smoothing: the share of the target distribution that is spread over the whole vocabulary,
        as of torch.nn.functional.cross_entropy.
    z_loss: the factor of the square of log Σ exp(logits) (PaLM, arXiv 2204.02311, section 5).
    mean: what the step's loss is the mean of: "token" = all targets, by their weights; "document" =
        all documents with a target, of which each one's loss is the mean over its targets; "sum" =
        it is a sum.

    Metrics, where label_smoothing or z_loss is above 0: cross_entropy without them, z_loss with its
    factor.
    """

    label_smoothing: float = 0.0
    z_loss: float = 0.0
    mean: str = TOKEN

    def __post_init__(self):
        require_mean(self.mean)
        require_number("label_smoothing", self.label_smoothing, 0, 1)
        require_number("z_loss", self.z_loss, 0)

    @property
    def is_plain(self):
        """Whether it is the cross-entropy alone, for which there are kernels."""
        return self.label_smoothing == 0 and self.z_loss == 0

    def __call__(self, rows):
        loss_T = -rows.logprobs_T
        metrics, smoothing = {"cross_entropy": loss_T}, self.label_smoothing
        if smoothing:
            uniform_T = rows.logsumexp_T - rows.logits_TV.mean(-1)
            loss_T = (1 - smoothing) * loss_T + smoothing * uniform_T
        if self.z_loss:
            metrics["z_loss"] = self.z_loss * rows.logsumexp_T.square()
            loss_T = loss_T + metrics["z_loss"]
        return loss_T, metrics


@dataclasses.dataclass(frozen=True)
class Distillation:
    """Learns the K most probable tokens of a teacher, for each target beside the target itself.

        (1 − share) · cross-entropy + share · temperature² · Σ_k p_k · (log p_k − log q_k)

    p: the teacher's probabilities at this temperature, of K tokens, as they are given: they need not
    add up to 1, and what the teacher gives to other tokens is left out. q: the model's over its whole
    vocabulary at this temperature (Hinton et al., arXiv 1503.02531).

    extras: "teacher_ids" [tokens, K], "teacher_logprobs" [tokens, K]. mean: as of CrossEntropy.
    Metrics: cross_entropy, divergence (the sum over k).
    """

    share: float = 1.0
    temperature: float = 1.0
    mean: str = TOKEN

    def __post_init__(self):
        require_mean(self.mean)
        require_number("share", self.share, 0, 1)
        require_number("temperature", self.temperature, 0, above=True)

    def __call__(self, rows):
        ids_TK, teacher_TK = rows["teacher_ids"].long(), rows["teacher_logprobs"]
        if ids_TK.shape != teacher_TK.shape or ids_TK.ndim != 2:
            raise InvalidInput(f"teacher_ids have shape {list(ids_TK.shape)} for {len(ids_TK)} targets, "
                               f"teacher_logprobs {list(teacher_TK.shape)}; give [tokens, K] of both")
        if ids_TK.numel() and not 0 <= int(ids_TK.min()) <= int(ids_TK.max()) < rows.logits_TV.shape[1]:
            raise InvalidInput(f"teacher_ids go from {int(ids_TK.min())} to {int(ids_TK.max())}, the model has "
                               f"{rows.logits_TV.shape[1]} logits; the teacher needs the model's vocabulary")
        scaled_TV = rows.logits_TV / self.temperature
        q_TK = scaled_TV.gather(-1, ids_TK) - scaled_TV.logsumexp(-1, keepdim=True)
        teacher_TK = teacher_TK.to(q_TK.dtype)
        # A token that the teacher excludes (−∞) adds nothing.
        gap_TK = torch.where(teacher_TK.isneginf(), torch.zeros_like(q_TK), teacher_TK - q_TK)
        divergence_T = (teacher_TK.exp() * gap_TK).sum(-1)
        of_target_T = -rows.logprobs_T
        loss_T = (1 - self.share) * of_target_T + self.share * self.temperature**2 * divergence_T
        return loss_T, {"cross_entropy": of_target_T, "divergence": divergence_T}


@dataclasses.dataclass(frozen=True)
class PolicyLoss:
    """The clipped loss of PPO (arXiv 1707.06347) by token, as GRPO (arXiv 2402.03300) and DAPO (arXiv
    2503.14476) use it.

        r = exp(logprob − old logprob)
        −min(r · A, clip(r, 1 − clip_low, 1 + clip_high) · A) + kl · D − entropy · H

    D: exp(ref − logprob) − (ref − logprob) − 1, an estimate of the divergence from a reference model
    (k3 of http://joschu.net/blog/kl-approx.html). H: the entropy of the row's distribution.

    extras: "advantages"; "old_logprobs" of the policy that sampled, without which it is the model
    as it is (r = 1, with its gradient); "reference_logprobs" where kl is above 0.
    mean: as of CrossEntropy; "document" is GRPO's mean over answers, "token" DAPO's over tokens.
    Metrics: ratio, clip_fraction, approximate_kl (k3 from the old policy), and where they count
    reference_kl and entropy.
    """

    clip_low: float = 0.2
    clip_high: float = 0.2
    kl: float = 0.0
    entropy: float = 0.0
    mean: str = TOKEN

    def __post_init__(self):
        require_mean(self.mean)
        require_number("clip_low", self.clip_low, 0, 1)
        for name in ("clip_high", "kl", "entropy"):
            require_number(name, getattr(self, name), 0)

    def __call__(self, rows):
        logprobs_T = rows.logprobs_T
        old_T = rows["old_logprobs"] if "old_logprobs" in rows else logprobs_T.detach()
        advantages_T = rows["advantages"].to(logprobs_T.dtype)
        ratio_T = (logprobs_T - old_T.to(logprobs_T.dtype)).exp()
        clipped_T = ratio_T.clamp(1 - self.clip_low, 1 + self.clip_high)
        loss_T = -torch.minimum(ratio_T * advantages_T, clipped_T * advantages_T)
        is_clipped_T = clipped_T * advantages_T < ratio_T * advantages_T
        metrics = {"ratio": ratio_T, "clip_fraction": is_clipped_T.to(ratio_T.dtype),
                   "approximate_kl": _k3(logprobs_T, old_T.to(logprobs_T.dtype))}
        if self.kl:
            metrics["reference_kl"] = _k3(logprobs_T, rows["reference_logprobs"].to(logprobs_T.dtype))
            loss_T = loss_T + self.kl * metrics["reference_kl"]
        if self.entropy:
            metrics["entropy"] = rows.entropy_T
            loss_T = loss_T - self.entropy * rows.entropy_T
        return loss_T, metrics


def _k3(logprobs_T, of_other_T):
    gap_T = of_other_T - logprobs_T
    return gap_T.exp() - gap_T - 1
