"""Which server a request goes to, and under which id.

The turns of one conversation go to one server, because that is where its prefix is cached: by rendezvous hashing, so
nothing has to be remembered, and a server that is gone moves its own conversations only. A server that gave no
answer is passed over for a while, and within one call those come first that left fewer of its attempts unanswered: as
long as one server is left that was not asked, a call has not failed.

A request id is `<conversation>_r<attempt>`: 32 hexadecimal digits and 20 decimal ones. All ids have one length, so
none is a prefix of another (an engine aborts by prefix); every attempt has its own; and routers that take the
conversation from the id strip `_r` and its digits. Does no I/O.
"""

from __future__ import annotations

import hashlib
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlsplit

from strands_sglang.errors import SGLangConfigError

from .routers import ServerKind

RID_LENGTH = 54

_HEX_KEY = re.compile(r"[0-9a-f]{32}")
_PASS_OVER_SECONDS = 10.0
_SILENCES_OF_AN_OUTAGE = 2
_NONE: Mapping[Server, int] = {}
# Not the seeded generator of the `random` module: an agent that seeds it would repeat its request ids.
_RANDOM = random.SystemRandom()


def conversation_key(conversation_id: str | None) -> str:
    """Return 32 hexadecimal digits for a conversation; fresh ones for None."""
    if conversation_id is None:
        return f"{_RANDOM.getrandbits(128):032x}"
    if _HEX_KEY.fullmatch(conversation_id):
        return conversation_id
    return hashlib.blake2b(conversation_id.encode(), digest_size=16).hexdigest()


def new_rid(key: str) -> str:
    """Return a fresh request id for one attempt within a conversation."""
    return f"{key}_r{_RANDOM.getrandbits(64):020d}"


class Server:
    """One base URL and what is known about it.

    Attributes:
        base_url: The address without a trailing slash.
        contacted: Whether it has ever answered anything.
        silent_attempts: How many attempts in a row got no answer.
        kind: What it is, once that was asked and answered.
    """

    def __init__(self, base_url: str) -> None:
        """Check the address, which has no trailing slash.

        Raises:
            SGLangConfigError: It is not the address of an HTTP server.
        """
        if not _is_address(base_url):
            raise SGLangConfigError(
                f"base_url must look like http://localhost:30000, got {base_url!r}",
                hint=f"did you mean http://{base_url}?" if _is_address(f"http://{base_url}") else None,
            )
        self.base_url = base_url
        self.contacted = False
        self.silent_attempts = 0
        self.kind = ServerKind.UNKNOWN
        self._pass_over_until = 0.0

    def url(self, path: str) -> str:
        """Return the URL of a path."""
        return self.base_url + path

    def answered(self) -> None:
        """Note that it answered."""
        self.contacted = True
        self.silent_attempts = 0
        self._pass_over_until = 0.0

    def gave_no_answer(self, now: float) -> bool:
        """Note that it gave no answer; return whether it is time to say so: once, and not for a single reset."""
        self.silent_attempts += 1
        self._pass_over_until = now + _PASS_OVER_SECONDS
        return self.silent_attempts == _SILENCES_OF_AN_OUTAGE

    def is_passed_over(self, now: float) -> bool:
        """Whether it is better to ask another one now."""
        return now < self._pass_over_until

    def __repr__(self) -> str:
        return f"Server({self.base_url!r})"


class Servers:
    """The servers of one client.

    Attributes:
        all: Every server, in the order given.
    """

    def __init__(self, base_urls: Sequence[str], *, clock: Callable[[], float] = time.monotonic) -> None:
        """Check the addresses."""
        if not base_urls:
            raise SGLangConfigError("base_url is an empty list: give at least one address")
        for url in base_urls:
            if not isinstance(url, str):
                raise SGLangConfigError(f"base_url must be a string or a list of strings, got {url!r}")
        self.all = tuple(map(Server, dict.fromkeys(url.rstrip("/") for url in base_urls)))
        self.clock = clock

    def choose(self, key: str, unanswered: Mapping[Server, int] = _NONE) -> Server:
        """Return the server of a conversation: its own, or the next one while its own gives no answer.

        Args:
            key: The conversation's key.
            unanswered: How many attempts of this call each server left unanswered.
        """
        if len(self.all) == 1:
            return self.all[0]
        ranked = sorted(self.all, key=lambda server: _weight(key, server.base_url), reverse=True)
        now = self.clock()
        return min(ranked, key=lambda server: (server.is_passed_over(now), unanswered.get(server, 0)))


class Route:
    """Where the attempts of one call go.

    Attributes:
        key: The conversation's key.
        server: Where the last attempt went.
    """

    __slots__ = ("_servers", "_unanswered", "key", "server")

    def __init__(self, servers: Servers, key: str) -> None:
        """Begin at the conversation's own server."""
        self.key = key
        self._servers = servers
        self._unanswered: dict[Server, int] = {}
        self.server = servers.all[0]

    def choose(self) -> Server:
        """Choose the server of the next attempt."""
        self.server = self._servers.choose(self.key, self._unanswered)
        return self.server

    def was_left_unanswered(self) -> None:
        """Note that the last attempt got no answer."""
        self._unanswered[self.server] = self._unanswered.get(self.server, 0) + 1

    def moves_on(self) -> bool:
        """Whether another server shall be asked at once: one that answers, or one that was asked less than this."""
        other = self._servers.choose(self.key, self._unanswered)
        if other is self.server:
            return False
        asked, asked_here = (self._unanswered.get(server, 0) for server in (other, self.server))
        is_likely = not other.is_passed_over(self._servers.clock())
        return is_likely or (asked < asked_here and not self._is_any_known())

    def first_contacts(self) -> int | None:
        """Return how often every server was asked in vain by now, or None once one has ever answered."""
        if self._is_any_known():
            return None
        return min(self._unanswered.get(server, 0) for server in self._servers.all)

    def _is_any_known(self) -> bool:
        return any(server.contacted for server in self._servers.all)


def _is_address(base_url: str) -> bool:
    """Whether a path can be put behind an address, and the whole be asked."""
    if re.search(r"[\s\x00-\x1f\x7f?#]", base_url):
        return False
    try:
        parts = urlsplit(base_url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of the port, or of an IPv6 address
        return False


def _weight(key: str, base_url: str) -> bytes:
    return hashlib.blake2b(f"{key}|{base_url}".encode(), digest_size=8).digest()
