"""spear_ray: how natural is a speech-to-speech model in conversation?

The package is light to import: torch, ray and the models load when a scorer is set up, not before.
"""

__version__ = "0.1.0"
