"""Settings of a Trainer that cannot hold with micro-batches of whole documents."""

import torch
from transformers import Trainer

from slimpack import InvalidInput
from slimpack.balancing import require_positive

_ALREADY = "SlimPackMixin packs whole documents itself, without padding and without cutting; leave it out"


def require_caps(max_tokens, max_slice_tokens):
    """Raises InvalidInput for caps that no documents fit."""
    require_positive("max_tokens", max_tokens)
    require_positive("max_slice_tokens", max_slice_tokens)
    if None not in (max_tokens, max_slice_tokens) and max_slice_tokens > max_tokens:
        raise InvalidInput(f"max_slice_tokens is {max_slice_tokens}, above max_tokens, which is {max_tokens}; take at most as "
                           "many")


def require_settings(args):
    """Raises InvalidInput for TrainingArguments that cannot hold. Needs no trainer, so nothing is prepared yet."""
    for name in ("packing", "eval_packing", "padding_free"):
        if getattr(args, name, False):
            raise InvalidInput(f"{name} is True; {_ALREADY}")
    strategy = getattr(args, "train_sampling_strategy", "random")
    if strategy not in ("random", "sequential"):
        raise InvalidInput(f"train_sampling_strategy is '{strategy}', a second way to choose batches; take 'random' or "
                           "'sequential', SlimPackMixin balances them")
    for name in ("dispatch_batches", "split_batches"):
        if getattr(args.accelerator_config, name):
            raise InvalidInput(f"accelerator_config has {name}, but every rank has micro-batches of its own already; "
                               "leave it out")
    for name, why in _UNSUPPORTED.items():
        if getattr(args, name, None):
            raise InvalidInput(f"{name} is {getattr(args, name)}, {why}")
    if not args.eval_do_concat_batches:
        raise InvalidInput("eval_do_concat_batches is False, but predictions come in the order of the dataset only when they "
                           "are together; leave it True")
    if args.n_gpu > 1:
        raise InvalidInput(f"one process sees {args.n_gpu} GPUs, and torch.nn.DataParallel would cut packs; start a process "
                           "for each with torchrun, or set CUDA_VISIBLE_DEVICES")
    if args.world_size > 1 and not args.average_tokens_across_devices:
        raise InvalidInput("average_tokens_across_devices is False, so ranks with few targets would count as much as "
                           "those with many; leave it True")


_UNSUPPORTED = {
    "deepspeed": "whose engine counts gradient accumulation steps itself; take DDP",
    "auto_find_batch_size": "which halves the documents of a step but not the memory they take; lower max_tokens",
    "dataloader_drop_last": "which would leave documents out; leave it False, no batch needs to be full",
    "neftune_noise_alpha": "whose noise depends on the tokens of a row, here those of a pack; leave it out",
    "use_cache": "with which transformers does not see where documents begin; leave it False",
    "include_for_metrics": "but a row of inputs is a pack; compute metrics from predictions and labels",
}


def require_trainer(trainer, behind):
    """Raises InvalidInput for a trainer whose model, loss or loaders cannot hold. behind: it as the classes behind
    SlimPackMixin have it."""
    for name in ("get_train_dataloader", "get_eval_dataloader", "_get_train_sampler", "_get_eval_sampler"):
        if getattr(behind, name).__func__ is not getattr(Trainer, name):
            raise InvalidInput(f"{type(trainer).__name__} has its own {name}, a second way to choose batches; leave it out")
    if getattr(trainer, "_is_vision_dataset", False):
        raise InvalidInput("the dataset has images, whose places in a pack this trainer does not know; train it without "
                           "SlimPackMixin")
    model = type(trainer.model).__name__
    if not trainer._loss_shifts_labels:
        raise InvalidInput(f"{model} is no causal language model with the loss of next tokens; packs need one")
    if not trainer.model_accepts_loss_kwargs:
        raise InvalidInput(f"{model}.forward takes no num_items_in_batch, so its loss would be a mean over each micro-batch; "
                           "let it take **kwargs and divide by num_items_in_batch")
    if trainer.is_deepspeed_enabled:
        raise InvalidInput(f"DeepSpeed is configured, {_UNSUPPORTED['deepspeed']}")
    sizes = {"tensor": trainer.get_tp_size(), "context": trainer.get_cp_size(), "sequence": trainer.get_sp_size()}
    for kind, size in sizes.items():
        if size > 1:
            raise InvalidInput(f"{kind} parallelism has {size} ranks, but every rank gets documents of its own; take "
                               "data-parallel ranks alone")
    if getattr(trainer.model.config.get_text_config(), "output_router_logits", False) and not hasattr(
            trainer, "aux_loss_enabled"):
        raise InvalidInput("config.output_router_logits adds a loss of every micro-batch, as often as there are some; set it "
                           "to False, or take TRL's SFTTrainer, which takes their mean")


def require_sliceable(trainer, behind):
    """Raises InvalidInput for a trainer whose documents cannot run in slices."""
    args = trainer.args
    if trainer.is_fsdp_enabled:
        raise InvalidInput("FSDP is configured, which gathers weights for whole forward passes; take DDP, or leave "
                           "max_slice_tokens out")
    if args.fp16 or args.bf16 and trainer.model.dtype != torch.bfloat16:
        raise InvalidInput("fp16 or bf16 casts inside of layers, which slices are not tested with; load the model in bf16, or "
                           "leave max_slice_tokens out")
    own = behind.compute_loss.__func__.__module__ not in ("transformers.trainer", "trl.trainer.sft_trainer")
    others = {"a compute_loss": own, "compute_loss_func": trainer.compute_loss_func, "label_smoothing_factor":
              args.label_smoothing_factor, "loss_type": getattr(args, "loss_type", "nll") != "nll",
              "router_aux_loss_coef": getattr(trainer, "aux_loss_enabled", False)}
    for name, given in others.items():
        if given:
            raise InvalidInput(f"the trainer has {name}, slices have the loss of next tokens alone; leave it or "
                               "max_slice_tokens out")
