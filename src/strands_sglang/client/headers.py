"""The headers of a client's requests, checked where they are given and not where they are sent.

What HTTP cannot carry is refused with the option's name and without its value, which may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from strands_sglang.errors import SGLangConfigError

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")


def request_headers(extra: Mapping[str, str] | None, key: str | None, *, option: str = "api_key") -> dict[str, str]:
    """Return the headers of every request, names in lower case.

    Args:
        extra: The caller's own.
        key: The API key, or None.
        option: The name of the key's option.

    Raises:
        SGLangConfigError: HTTP cannot carry one of them.
    """
    headers = {"content-type": "application/json", "accept-encoding": "identity"}
    if key:
        headers["authorization"] = f"Bearer {_checked(key, option)}"
    for name, value in (extra or {}).items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise SGLangConfigError(f"headers: {name!r} is not the name of a header")
        headers[name.lower()] = _checked(value, f"headers[{name!r}]")
    return headers


def check_credentials(base_urls: Iterable[str], *headers: Mapping[str, str]) -> None:
    """Refuse a key beside a user name in an address: both would be the same header.

    Raises:
        SGLangConfigError: There are both.
    """
    if any("authorization" in own for own in headers) and any("@" in urlsplit(url).netloc for url in base_urls):
        raise SGLangConfigError(
            "base_url holds a user name, and there is an api_key, admin_api_key or authorization header: "
            "a request can carry one of them only"
        )


def _checked(value: Any, option: str) -> str:
    if not isinstance(value, str):
        raise SGLangConfigError(f"{option} must be a string, not a value of type {type(value).__name__}")
    if value != value.strip():
        raise SGLangConfigError(
            f"{option} begins or ends with white space or a line break",
            hint="a key that is read from a file ends with a line break: strip it",
        )
    if not _VALUE.fullmatch(value):
        raise SGLangConfigError(f"{option} holds a control character or one that is not ASCII: HTTP cannot carry it")
    return value
