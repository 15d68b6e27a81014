"""What a drawn figure holds."""

import torch


def drawn(axes, image=0):
    """Return the array of one of the panel's images."""
    return torch.as_tensor(axes.images[image].get_array().data)


def words(axes):
    """Return the texts that are written into a panel."""
    return [text.get_text() for text in axes.texts]


def lines(axes):
    """Return the heights of the panel's lines, by their names in the legend."""
    return {line.get_label(): list(line.get_ydata()) for line in axes.lines if not line.get_label().startswith("_")}
