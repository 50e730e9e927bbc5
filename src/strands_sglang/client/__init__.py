"""The client of SGLang's native HTTP API.

`client` is the public face; `calls` runs one generation through retries and resumptions; `control` asks and orders;
`pool` holds the connections and is the only module that knows the HTTP library; `servers` says where a request goes;
`failures` names errors; `gate` holds requests; `shared` gives clients that a process shares.
"""

from __future__ import annotations

from .client import DEFAULT_MAX_CONNECTIONS, SGLangClient
from .shared import get_client, get_client_from_slime_args

__all__ = ["DEFAULT_MAX_CONNECTIONS", "SGLangClient", "get_client", "get_client_from_slime_args"]
