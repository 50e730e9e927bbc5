"""The linear record of one branch: which ids were read, which were sampled, and what is known of each.

`segment.py` holds `Segment`, `support.py` holds `SamplingSupport`, `linear.py` holds `Rollout`. `saved.py` says how
they are written and read again.
"""

from .linear import Rollout
from .segment import LogprobKind, Segment, SegmentKind
from .support import SamplingSupport

__all__ = ["LogprobKind", "Rollout", "SamplingSupport", "Segment", "SegmentKind"]
