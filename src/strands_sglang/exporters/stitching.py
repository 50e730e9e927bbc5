"""The routing rows of a row, whatever its facts hold.

Facts are JSON values of any kind, and a record may come from anywhere: what is no text is refused here, before
`strands_sglang.routing` reads it as base64.
"""

from __future__ import annotations

from strands_sglang.errors import RoutingError
from strands_sglang.routing import RoutedExperts, routed_experts

from .row import Row


def stitched(row: Row, kind: str, layers: int | None, top_k: int | None) -> RoutedExperts:
    """Return the rows of a row's tokens.

    Args:
        row: The row.
        kind: The fact that they are read from, "routed_experts" or "indexer_topk".
        layers: Layers in each row.
        top_k: Numbers per token and layer.

    Raises:
        RoutingError: If a turn's fact is no text, no turn has one, or they do not fit the tokens or the shape.
    """
    for turn in row.sample.turns:
        fact = turn.sampled.facts.get(kind)
        if fact is not None and not isinstance(fact, str):
            raise RoutingError(f"{row.name}: {kind} of turn {turn.index} is a {type(fact).__name__}, not base64 text")
    return routed_experts(row.sample.rollout, num_layers=layers, top_k=top_k, kind=kind)
