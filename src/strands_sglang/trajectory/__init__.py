"""The record of one episode: the tree of its turns, and the samples cut from it.

`turn.py` holds `Turn`, `sample.py` holds `Sample`, `tree.py` holds `Trajectory`, `saved.py` says how it is written and
read again.
"""

from .sample import Sample
from .tree import Trajectory
from .turn import Lineage, Turn, TurnFate

__all__ = ["Lineage", "Sample", "Trajectory", "Turn", "TurnFate"]
