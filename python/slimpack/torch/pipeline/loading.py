"""Loads the weights of one stage."""

from slimpack import InvalidInput
from slimpack.torch.pipeline.family import family_of
from slimpack.torch.pipeline.gradients import unusable


def load_divided(folder, dtype, divide):
    """(model, what divide returned) of a Hugging Face model. `divide` is called on the model before
    its weights are there; only what it leaves is loaded."""
    family, config = family_of(folder)

    class Divided(family):
        _keys_to_ignore_on_load_unexpected = (".*",)  # those of other stages

        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.division = divide(self)

    model, info = Divided.from_pretrained(folder, config=config, dtype=dtype,
                                          attn_implementation="eager", output_loading_info=True)
    missing = sorted(info["missing_keys"])
    if missing:
        raise InvalidInput(f"{folder} has no weights for {missing[0]}; give a complete model")
    for name, parameter in model.named_parameters():
        if unusable([(name, parameter)]):
            raise InvalidInput(f"{folder}: {name} holds values that are not finite numbers, so these "
                               "weights cannot be trained; take a sound copy")
    division = model.division
    del model.division
    model.__class__ = family
    model.train()
    return model, division
