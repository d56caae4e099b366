"""Prosody of an answer: pitch, level, pauses and rate, and what its words are like."""
