"""The version, and nothing else: the build reads it without importing the package."""

__version__ = "0.5.0"
