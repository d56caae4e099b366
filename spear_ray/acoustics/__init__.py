"""Acoustic measurements on plain arrays: pitch, level, spectrum."""
