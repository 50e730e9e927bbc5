"""An episode as the rows of a trainer: slime, verl, TRL, SkyRL, AReaL, prime-rl, NeMo-RL, Tinker, ART and others.

`get_exporter(name, **options).export(trajectory)` gives `Exported(rows, losses)`: plain values that the trainer's own
type takes, and what of the record did not fit. No trainer is imported; `docs/exporters.md` says how each aligns its
columns. `base.py` holds what all share, one file holds each trainer.
"""

from .base import Alignment, Exporter
from .registry import EXPORTERS, get_exporter, register_exporter
from .result import Exported, Loss

__all__ = ["EXPORTERS", "Alignment", "Exported", "Exporter", "Loss", "get_exporter", "register_exporter"]
