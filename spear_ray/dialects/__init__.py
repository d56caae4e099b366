"""Languages and English dialects: labels and what is made of probabilities."""
