"""Whole episodes through a connection that fails in every way it can, checked against the engine's own log.

The short form is a unit test; the long one is `python -m tests.chaos --episodes 2000`.
"""
