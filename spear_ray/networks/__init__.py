"""Published networks, written fresh, and the loaders of their checkpoints."""
