"""What an answer says in words: recognised text, its word times, and its distance to the text that was meant."""
