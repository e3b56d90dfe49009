"""SlimPack inside transformers.Trainer and what is made of it, such as TRL's SFTTrainer."""

from slimpack.torch.trainer.mixin import SlimPackMixin, SlimPackTrainer

__all__ = ["SlimPackMixin", "SlimPackTrainer"]
