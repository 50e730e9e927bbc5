"""The client of SGLang's native HTTP API.

`client` is the public face; `calls` runs one generation through retries and resumptions; `streams` puts streamed
replies together; `control` asks and orders; `servers` says where a request goes, `routers` what is lost on the way;
`failures` names errors; `gate` holds requests; `shared` gives clients that a process shares. `pool` holds the
connections and is the only module that knows the HTTP library.
"""

from __future__ import annotations

from .client import DEFAULT_MAX_CONNECTIONS, SGLangClient
from .routers import ServerKind
from .shared import get_client, get_client_from_slime_args
from .streams import StreamDelta

__all__ = [
    "DEFAULT_MAX_CONNECTIONS",
    "SGLangClient",
    "ServerKind",
    "StreamDelta",
    "get_client",
    "get_client_from_slime_args",
]
