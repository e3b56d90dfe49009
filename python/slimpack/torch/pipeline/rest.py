"""A model of more than text has parameters beside its language model. They stay as they were and are
saved with the language model, so that the folder is one of the whole model."""

from slimpack.torch.pipeline.language_model import is_part
from slimpack.torch.pipeline.loading import load_divided
from slimpack.torch.pipeline.ownership import Hollow, forget_absent_ties


class Rest:
    """Made by rest_of, of a whole model.

    source: the folder or name that the model is loaded from, or None.
    """

    def __init__(self, tensors, source=None):
        self._tensors, self.source = tensors, source

    def state(self):
        """Its parameters by name, on the CPU, in the dtype that they were given in."""
        if not self._tensors:
            return {}
        if self.source is None:
            return {name: tensor.detach().cpu() for name, tensor in self._tensors.items()}
        model, _ = load_divided(self.source, "auto", self._leave_alone)
        return {name: model.get_parameter(name).detach() for name in self._tensors}

    def _leave_alone(self, model):
        Hollow(model, self._tensors.keys())
        forget_absent_ties(model)


def rest_of(model, language):
    """The Rest of a whole model. language: names of the parameters of its language model."""
    if not is_part(model.config):
        return Rest({})
    return Rest({name: parameter for name, parameter in model.named_parameters() if name not in language})
