"""The language model in a model of more than text, such as one that also sees.

Stages are made of the whole model, so weights keep their names and the saved folder is one of the
whole model again. Training on text never runs the rest.
"""

import copy


def is_part(config):
    """Whether the language model's configuration is a part of this one."""
    return type(config.get_text_config()) is not type(config)


def part_name(config):
    """The name of the language model's part in a configuration."""
    text = config.get_text_config()
    return next(name for name in config.sub_configs if getattr(config, name, None) is text)


def with_part(config, text):
    """A copy of a configuration with another language model."""
    copied = copy.deepcopy(config)
    setattr(copied, part_name(config), text)
    return copied


def language_modules(model):
    """(name, module) of the modules in which a model's decoder layers may be, outermost first: all,
    or in a model of more than text those of its language model."""
    text = model.config.get_text_config()
    if is_part(model.config):
        for name, module in model.named_modules():
            if name and getattr(module, "config", None) is text:
                return [(f"{name}.{inner}".rstrip("."), of) for inner, of in module.named_modules()]
    return list(model.named_modules())


def settings_of(model):
    """The dictionaries behind the configurations that a language model's code reads."""
    configs = [model.config, model.config.get_text_config()]
    return [vars(config) for config in {id(config): config for config in configs}.values()]
