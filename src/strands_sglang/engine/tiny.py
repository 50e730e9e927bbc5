"""Placeholder until the scheduler lands."""

from strands_sglang.engine.api import NativeApi


class TinyEngine(NativeApi):
    """Not yet."""
