"""The record of one episode: the tree of its turns, and the samples cut from it.

`turn.py` holds `Turn`, `fork.py` holds `Fork`, `sample.py` holds `Sample`, `tree.py` holds `Trajectory`. `saved.py`
says how it is written and read again, `report.py` tells what in it was not plain.
"""

from .fork import Fork, ForkReason
from .report import Finding, FindingKind, Report
from .sample import Sample
from .tree import Trajectory
from .turn import Lineage, Turn, TurnFate

__all__ = [
    "Finding",
    "FindingKind",
    "Fork",
    "ForkReason",
    "Lineage",
    "Report",
    "Sample",
    "Trajectory",
    "Turn",
    "TurnFate",
]
