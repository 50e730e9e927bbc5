"""One conversation: from the host's history to a request, and from the reply to the record.

What the host holds is compared message by message with what was sent (guarantee G3): equal history is extended, changed
history goes on from the deepest turn that still agrees, and what that shows of earlier answers (kept, edited, thrown
away) is noted. Messages of the host are opaque here. No I/O, no Strands.
"""

from .conversation import Conversation, PendingTurn
from .history import ChatMessage, HostHistory, OnDivergence, fingerprint

__all__ = ["ChatMessage", "Conversation", "HostHistory", "OnDivergence", "PendingTurn", "fingerprint"]
