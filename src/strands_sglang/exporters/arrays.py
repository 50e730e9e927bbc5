"""Columns as nested lists or as NumPy arrays of a trainer's types.

Neither needs torch: `torch.tensor(column)` takes the lists and `torch.from_numpy(column)` the arrays. NumPy is loaded
only where arrays are asked for.
"""

from __future__ import annotations

from typing import Any, Literal

Arrays = Literal["list", "numpy"]
"""What columns are: lists, or arrays of the trainer's own types."""

CHOICES = ("list", "numpy")


def column(values: list[Any], dtype: str, kind: Arrays) -> Any:
    """Return a column as asked for.

    Args:
        values: The numbers, nested as the trainer wants them.
        dtype: The trainer's type, as NumPy names it.
        kind: What it becomes.
    """
    if kind == "list":
        return values
    import numpy as np

    return np.array(values, dtype=dtype)
