"""The body of a reply as it is taken apart.

Owns the looking up of fields and the complaint about one that is not what it should be: every complaint names the URL
and the request.
"""

from __future__ import annotations

from typing import Any, NoReturn

from strands_sglang.errors import SGLangDecodingError

from .request import GenerateRequest

_JSON_NAMES = {dict: "object", list: "array", str: "string", int: "integer", float: "number", bool: "boolean"}


class Body:
    """A decoded body, and the request that it answers."""

    def __init__(self, body: Any, request: GenerateRequest, rid: str, url: str) -> None:
        """Take a body; what is no reply at all is refused."""
        self.request, self.rid, self.url, self.body = request, rid, url, body
        if not isinstance(body, dict):
            self.fail(f"it answered a JSON {_json_type(body)}, not an object")
        if "meta_info" not in body:
            self.fail("its answer has no meta_info", hint="is this an SGLang server, and the URL its root?")
        self.meta = self.take(body, "meta_info", dict)

    def take(self, holder: dict[str, Any], key: str, kind: type, *, optional: bool = False) -> Any:
        """Return a field of the kind it must be; None where it may be missing and is."""
        value = holder.get(key)
        if value is None and optional:
            return None
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            name = key if holder is self.body else f"meta_info.{key}"
            what = "is missing" if key not in holder else f"is {value!r:.60}, not a JSON {_JSON_NAMES[kind]}"
            self.fail(f"{name} {what}")
        return value

    def where(self) -> str:
        """Return which reply this is."""
        return f"reply of {self.url or '/generate'}" + (f" to request {self.rid}" if self.rid else "")

    def fail(self, what: str, *, hint: str | None = None) -> NoReturn:
        """Raise what is wrong with the body."""
        raise SGLangDecodingError(
            f"{self.where()}: {what}", body=repr(self.body)[:500], url=self.url, rid=self.rid, hint=hint
        )


def _json_type(value: Any) -> str:
    return "null" if value is None else _JSON_NAMES.get(type(value), type(value).__name__)
