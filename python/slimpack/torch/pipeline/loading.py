"""Loads the weights of one stage."""

from transformers import AutoConfig, AutoModelForCausalLM

from slimpack import InvalidInput


def load_divided(folder, dtype, divide):
    """(model, what divide returned) of a Hugging Face model. `divide` is called on the model before
    its weights are there; only what it leaves is loaded."""
    config = AutoConfig.from_pretrained(folder)
    if type(config) not in AutoModelForCausalLM._model_mapping:
        raise InvalidInput(
            f"{folder} is no causal language model, its type is {config.model_type}; give one")
    family = AutoModelForCausalLM._model_mapping[type(config)]

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
    division = model.division
    del model.division
    model.__class__ = family
    model.train()
    return model, division
