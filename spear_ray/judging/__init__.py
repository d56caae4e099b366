"""The audio LLM that judges: clips, prompts, engines, and reading its decisions."""
