"""Which experts each token of a branch was routed to.

`routed_experts` stitches the rows that the turns of a branch brought, by absolute position, and gives them in the three
shapes in which trainers take them; `routing_shape` reads layers and top-k from a model's configuration. A row that is
not of the weights that sampled is missing, never guessed.
"""

from __future__ import annotations

from .part import RoutedPart
from .rows import Missing, RoutedExperts, routed_experts, routing_shape, stitch

__all__ = ["Missing", "RoutedExperts", "RoutedPart", "routed_experts", "routing_shape", "stitch"]
