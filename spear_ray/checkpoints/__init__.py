"""Published checkpoints: which there are and under which licence, how they come here, whether they are whole."""
