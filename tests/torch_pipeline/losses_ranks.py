"""Random steps with other losses than cross-entropy: what a pipeline finds on each rank of a job, and the same
losses written plainly, on whole documents, one at a time."""

import math

import torch
from pipeline_worker import arrays_of, close, engine_of
from slimpack.torch import losses
from slimpack.torch.pipeline.comparison import Fp64Casts
from torch.nn import functional
from weights_ranks import FAMILY

VOCABULARY, K = 97, 5
MEANS = ("token", "document", "sum")


def custom(rows):
    """A loss of a user's own: of logits, of an extra with two dimensions, of the weights it is given."""
    margin_T = rows.logits_TV.square().mean(-1) * rows["pair"][:, 1]
    return margin_T - rows["pair"][:, 0] * rows.entropy_T, {"entropy": rows.entropy_T}


OURS = {
    "smoothed": losses.CrossEntropy(label_smoothing=0.1, z_loss=1e-2),
    "distilled": losses.Distillation(share=0.7, temperature=2.0),
    "policy": losses.PolicyLoss(clip_low=0.1, clip_high=0.3, kl=0.2, entropy=0.05),
    "on policy": losses.PolicyLoss(),
    "custom": custom,
}


def loss_of(name, mean):
    """One of OURS with a mean, which a function has as an attribute."""
    ours = OURS[name]
    if ours is custom:
        def with_mean(rows):
            return custom(rows)

        with_mean.mean = mean
        return with_mean
    return type(ours)(**{**vars(ours), "mean": mean})


def extras_of(documents, seed, name):
    """By name and sequence what the losses take of every token."""
    generator = torch.Generator().manual_seed(seed)

    def drawn(document, *shape):
        return torch.randn(len(document), *shape, generator=generator, dtype=torch.float64)

    extras = {"advantages": [drawn(d) for d in documents],
              "reference_logprobs": [drawn(d) - 4 for d in documents],
              "pair": [drawn(d, 2) for d in documents],
              "teacher_ids": [torch.randint(VOCABULARY, (len(d), K), generator=generator) for d in documents],
              "teacher_logprobs": [torch.log_softmax(drawn(d, K + 1), -1)[:, :K] for d in documents]}
    extras["teacher_logprobs"][0][0, 0] = -math.inf  # a token that the teacher excludes
    if name != "on policy":
        # Around the model's own, so that some ratios are inside the clip and some are not.
        extras["old_logprobs"] = [0.2 * drawn(d) - 4.6 for d in documents]
    return extras


def plain_row(name, logits_V, target, extra):
    """(loss, metrics) of one token, term by term."""
    log_V = torch.log_softmax(logits_V, 0)
    p_V = log_V.exp()
    logprob = log_V[target]
    if name == "smoothed":
        smooth_V = torch.full_like(log_V, 0.1 / VOCABULARY)
        smooth_V[target] += 0.9
        z = 1e-2 * logits_V.exp().sum().log() ** 2
        return -(smooth_V * log_V).sum() + z, {"cross_entropy": -logprob, "z_loss": z}
    if name == "distilled":
        log_q_V = torch.log_softmax(logits_V / 2.0, 0)
        divergence = sum(math.exp(t) * (t - log_q_V[i])
                         for i, t in zip(extra["teacher_ids"].tolist(), extra["teacher_logprobs"].tolist(), strict=True)
                         if t > -math.inf)
        return 0.3 * -logprob + 0.7 * 4.0 * divergence, {"cross_entropy": -logprob, "divergence": divergence}
    entropy = -(p_V * log_V).sum()
    if name == "custom":
        a, b = extra["pair"]
        return (logits_V**2).mean() * b - a * entropy, {"entropy": entropy}
    advantage = extra["advantages"]
    low, high, kl, bonus = (0.1, 0.3, 0.2, 0.05) if name == "policy" else (0.2, 0.2, 0, 0)
    old = extra["old_logprobs"] if name == "policy" else logprob.detach()
    ratio = (logprob - old).exp()
    kept = ratio * advantage
    cut = min(max(ratio.item(), 1 - low), 1 + high) * advantage
    clipped = bool(cut < kept.detach())
    metrics = {"ratio": ratio, "clip_fraction": torch.tensor(float(clipped)),
               "approximate_kl": (old - logprob).exp() - (old - logprob) - 1}
    loss = -cut if clipped else -kept
    if name == "policy":
        gap = extra["reference_logprobs"] - logprob
        metrics |= {"reference_kl": gap.exp() - gap - 1, "entropy": entropy}
        loss = loss + kl * metrics["reference_kl"] - bonus * entropy
    return loss, metrics


def targets_of(document):
    """(place, weight) of the targets of a document."""
    weights = [1.0] * len(document) if document.weights is None else list(map(float, document.weights))
    return [(i, weights[i]) for i in range(1, len(document)) if document.labels[i] != -100 and weights[i] > 0]


def plain_step(model, documents, extras, name, mean):
    """(loss, metrics) of a step. Adds the gradients."""
    total, metrics, divisor = 0.0, {}, 0.0
    with Fp64Casts():
        for number, document in enumerate(documents):
            of_document = targets_of(document)
            if not of_document:
                continue
            weight_of_all = sum(weight for _, weight in of_document)
            share = weight_of_all if mean == "document" else 1.0
            divisor += weight_of_all / share
            logits_TV = model(input_ids=document.tokens[None], use_cache=False).logits[0]
            for i, weight in of_document:
                extra = {key: of[number][i] for key, of in extras.items()}
                loss, found = plain_row(name, logits_TV[i - 1], document.tokens[i], extra)
                total = total + weight / share * loss
                for key, value in found.items():
                    metrics[key] = metrics.get(key, 0.0) + weight / share * float(torch.as_tensor(value).detach())
        divisor = 1.0 if mean == "sum" else divisor
        (total / divisor).backward()
    return total.item() / divisor, {key: value / divisor for key, value in metrics.items()}


# Objectives: of the log-probabilities of whole documents.
OBJECTIVES = ("dpo", "orpo", "sequence policy", "own")


def answers_of(documents):
    """Two lists of documents with targets, which make pairs: all of them, some of them twice."""
    able = [s for s, document in enumerate(documents) if targets_of(document)]
    return able, able[1:] + able[:1]


def objective_of(name, documents, seed):
    generator = torch.Generator().manual_seed(seed)
    reference = [torch.randn(len(d), generator=generator, dtype=torch.float64) * 0.1 - 4.6 for d in documents]
    advantages = torch.randn(len(documents), generator=generator, dtype=torch.float64)
    chosen, rejected = answers_of(documents)
    ours = {"dpo": lambda: losses.dpo(chosen, rejected, reference, beta=0.3, label_smoothing=0.1),
            "orpo": lambda: losses.orpo(chosen, rejected, weight=0.4),
            "sequence policy": lambda: losses.sequence_policy(advantages, reference, clip_low=0.05, clip_high=0.1),
            "own": lambda: own_objective}
    return ours[name](), (chosen, rejected, reference, advantages)


def own_objective(logprobs, weights):
    """A product over all documents: no sum over tokens, and none over documents."""
    means = [(one.double() * of).sum() / of.sum() for one, of in zip(logprobs, weights, strict=True) if of.any()]
    return torch.stack(means).logsumexp(0), {"documents": len(means)}


def plain_objective(name, sums, weights, given):
    """Computes an objective from the weighted sum of log-probabilities and the weight of each document with a
    target."""
    chosen, rejected, reference, advantages = given
    if name == "own":
        return sum((sums[s] / weights[s]).exp() for s in sums).log()
    if name == "sequence policy":
        found = []
        for s in sums:
            ratio = ((sums[s] - reference[s]) / weights[s]).exp()
            cut = min(max(ratio.item(), 0.95), 1.1) * advantages[s]
            found.append(-cut if cut < (ratio * advantages[s]).detach() else -ratio * advantages[s])
        return sum(found) / len(found)
    found = []
    for a, b in zip(chosen, rejected, strict=True):
        if name == "dpo":
            x = 0.3 * ((sums[a] - reference[a]) - (sums[b] - reference[b]))
            found.append(0.9 * functional.softplus(-x) + 0.1 * functional.softplus(x))
        else:
            odds = [(sums[s] / weights[s]).exp() / (1 - (sums[s] / weights[s]).exp()) for s in (a, b)]
            found.append(0.4 * functional.softplus(-(odds[0] / odds[1]).log()))
    mean = sum(found) / len(found)
    if name == "orpo":
        mean = mean - sum(sums[a] for a in chosen) / sum(weights[a] for a in chosen)
    return mean


def plain_objective_step(model, documents, name, seed):
    """(loss, log-probabilities by document and token) of a step. Adds the gradients."""
    sums, weights, logprobs = {}, {}, []
    *_, (chosen, rejected, reference, advantages) = objective_of(name, documents, seed)
    with Fp64Casts():
        for number, document in enumerate(documents):
            logprobs.append(torch.zeros(len(document), dtype=torch.float64))
            log_TV = torch.log_softmax(model(input_ids=document.tokens[None], use_cache=False).logits[0], -1)
            for i, weight in targets_of(document):
                logprob = log_TV[i - 1, document.tokens[i]]
                logprobs[-1][i] = logprob.item()
                sums[number] = sums.get(number, 0.0) + weight * logprob
                weights[number] = weights.get(number, 0.0) + weight
        of_reference = {s: sum(weight * reference[s][i] for i, weight in targets_of(documents[s])) for s in sums}
        loss = plain_objective(name, sums, weights, (chosen, rejected, of_reference, advantages))
        loss.backward()
    return loss.item(), logprobs


def loss_step_of(case, name):
    """(loss, metrics, those of an evaluation, gradients by name) on this rank. case.loss: the mean."""
    plan, documents = case.step()
    engine = engine_of(FAMILY, case.seed, plan, {"loss": loss_of(name, case.loss)})
    extras = extras_of(documents, case.seed, name)
    with Fp64Casts():
        result = engine.step(plan, documents, extras=extras)
        alone = engine.evaluate(plan, documents, extras=extras)
    close(engine)
    return result.loss, result.metrics, alone.loss, alone.metrics, arrays_of(engine)


def objective_step_of(case, name):
    """(loss, log-probabilities, gradients by name) on this rank."""
    plan, documents = case.step()
    engine = engine_of(FAMILY, case.seed, plan, {"loss": case.loss})
    with Fp64Casts():
        logprobs = engine.logprobs(plan, documents)
        result = engine.step_on_logprobs(plan, documents, objective_of(name, documents, case.seed)[0])
    close(engine)
    return result.loss, [one.numpy() for one in logprobs], arrays_of(engine)


