"""fathom: a scheduler control plane that can be questioned, replayed and steered."""

__version__ = "0.1.0"
