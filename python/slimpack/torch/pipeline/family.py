"""The transformers class that a configuration stands for."""

from pathlib import Path

from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    PreTrainedConfig,
)

from slimpack import InvalidInput

_OF_TEXT = AutoModelForCausalLM._model_mapping
_OF_MORE = AutoModelForImageTextToText._model_mapping


def config_of(config, remedy):
    """The configuration itself, or that of a name on the Hub or of a folder.

    Raises InvalidInput, which ends with the remedy, where it is of no causal language model.
    """
    if not isinstance(config, PreTrainedConfig):
        if (Path(config) / "adapter_config.json").exists():  # which from_pretrained would put into it
            raise InvalidInput(f"{config} holds an adapter; give the folder of its base model, and this "
                               "one as adapter=")
        config = AutoConfig.from_pretrained(config)
    if type(config) not in _OF_TEXT and type(config) not in _OF_MORE:
        raise InvalidInput(
            f"model_type is {config.model_type}, which is no causal language model of "
            f"transformers; {remedy}")
    return config


def family_of(config):
    """(class, its configuration) of a causal language model, or of a model of more than text that has
    one.

    config: a configuration, or its name on the Hub or its folder. Where it is of more than text, the
    class is the one that it names (`architectures`). Without a name it is, as for
    AutoModelForCausalLM, one that takes the language model alone, if there is one, and the
    configuration returned is that part.

    Raises InvalidInput for configurations of anything else.
    """
    config = config_of(config, "give one, or a model of your own class")
    alone, whole = (mapping.get(type(config), None) for mapping in (_OF_TEXT, _OF_MORE))
    try:
        text = config.get_text_config(decoder=True)
    except ValueError as error:
        raise InvalidInput(
            f"{config.model_type} has several language models, stages are made of one; give the "
            "configuration of one") from error
    named = whole is not None and whole.__name__ in (config.architectures or ())
    if alone is None or named:
        return whole, config
    is_taken_alone = type(text) is not type(config) and alone.config_class is type(text)
    return alone, text if is_taken_alone else config
