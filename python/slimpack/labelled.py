"""Token ids with their labels and weights: what goes from who reads a document to the loss."""

IGNORED = -100  # label of a token that is no target, as torch's losses have it


class LabelledTokens:
    """The token ids of a document, and for each a label: the token itself where it is a target, else
    -100. A target is predicted by the token before it, so the first token never is one.

    tokens, labels: arrays or tensors of one length. A slice is one, too.
    weights: likewise, by token its weight as a target, a number from 0; None = 1 each. A token of
        weight 0 is no target.
    extras: by name what else a loss takes of each token as a target, such as advantages or a
        teacher's logits: arrays or tensors whose first dimension is that of tokens.
    """

    def __init__(self, tokens, labels, weights=None, extras=None):
        self.tokens, self.labels, self.weights = tokens, labels, weights
        self.extras = extras or {}

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, part):
        weights = None if self.weights is None else self.weights[part]
        extras = {name: of_token[part] for name, of_token in self.extras.items()}
        return LabelledTokens(self.tokens[part], self.labels[part], weights, extras)


def tokens_of(document):
    """The token ids of LabelledTokens, or of a document that is token ids alone."""
    return document.tokens if isinstance(document, LabelledTokens) else document


def labels_of(document):
    """The labels of LabelledTokens. Token ids alone are their own labels."""
    return document.labels if isinstance(document, LabelledTokens) else document


def weights_of(document):
    """The weights of LabelledTokens; None where all are 1."""
    return document.weights if isinstance(document, LabelledTokens) else None


def extras_of(document):
    """The extras of LabelledTokens, by name."""
    return document.extras if isinstance(document, LabelledTokens) else {}
