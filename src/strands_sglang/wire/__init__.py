"""What `/generate` takes and gives.

`GenerateRequest` becomes one JSON body in which fields are omitted, never null. `GenerateReply` is a reply that was
validated whole: `len(output_ids) == completion_tokens == len(output_logprobs)`, the ids beside the log-probabilities
are the ids of `output_ids`, and the weight spans cover exactly these positions. `PromptIds` keeps the ids of a
conversation together with their JSON. `resume_request` and `join_replies` carry an aborted generation on from its own
tokens.

Nothing here repairs, pads or cuts a reply: what does not agree is an error. Nothing here does I/O.
"""

from __future__ import annotations

from .columns import WeightSpan
from .prompt import PromptIds
from .reply import FinishReason, FinishType, GenerateReply
from .request import GenerateRequest
from .resume import ended_by_budget, join_replies, resume_request

__all__ = [
    "FinishReason",
    "FinishType",
    "GenerateReply",
    "GenerateRequest",
    "PromptIds",
    "WeightSpan",
    "ended_by_budget",
    "join_replies",
    "resume_request",
]
