"""The transformers class that a configuration stands for."""

from pathlib import Path

from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig

from slimpack import InvalidInput


def config_of(config, remedy):
    """The configuration itself, or that of a name on the Hub or of a folder.

    Raises InvalidInput, which ends with the remedy, where it is of no causal language model.
    """
    if not isinstance(config, PreTrainedConfig):
        if (Path(config) / "adapter_config.json").exists():  # which from_pretrained would put into it
            raise InvalidInput(f"{config} holds an adapter; give the folder of its base model, and this "
                               "one as adapter=")
        config = AutoConfig.from_pretrained(config)
    if type(config) not in AutoModelForCausalLM._model_mapping:
        raise InvalidInput(
            f"model_type is {config.model_type}, which is no causal language model of "
            f"transformers; {remedy}")
    return config


def family_of(config):
    """(class, its configuration) of a causal language model, as AutoModelForCausalLM chooses it.

    config: a configuration, or its name on the Hub or its folder. Where it is of more than a
    language model and the class takes that part alone, the configuration returned is the part's.

    Raises InvalidInput for configurations of anything else.
    """
    config = config_of(config, "give one, or a model of your own class")
    family = AutoModelForCausalLM._model_mapping[type(config)]
    try:
        text = config.get_text_config(decoder=True)
    except ValueError:  # several
        text = None
    if text is not None and type(text) in (type(config), family.config_class):
        return family, text
    raise InvalidInput(
        f"{family.__name__} is more than a language model, stages are made of one; give its "
        "language model and that model's configuration")
