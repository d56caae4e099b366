"""Emotion: windows and sequences, vocal arousal."""
