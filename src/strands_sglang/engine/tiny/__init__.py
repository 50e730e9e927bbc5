"""A small language model engine in NumPy: sequence, scheduler, runner, sampler, one file each.

NumPy is imported by this folder alone, and only once a `TinyEngine` is constructed.
"""
