"""The sandbox that chat templates are rendered in, faster at what every template does.

Owns the access to attributes. Jinja's sandbox raises and catches an error for each key of a message that is written as
`message.content`, and asks a dozen questions about each attribute. Here a key of a plain dict is looked up, and the
answer to those questions, which depend on the object's type alone, is kept. Invariant: what a template can reach, and
what it gets, is exactly what jinja's own `ImmutableSandboxedEnvironment` gives. Imported only where a template is
compiled, so that importing the package does not load jinja2.
"""

from __future__ import annotations

from typing import Any

from jinja2.sandbox import ImmutableSandboxedEnvironment

_KEPT = 4096
_METHODS_OF_DICT = frozenset(dir(dict))


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox for templates that must not change what they are given."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Create it; the arguments are jinja's."""
        super().__init__(*args, **kwargs)
        self._safe: dict[tuple[type, str], bool] = {}

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return `obj.attribute`, or the item of that name."""
        if type(obj) is dict and attribute not in _METHODS_OF_DICT:
            try:
                return obj[attribute]
            except KeyError:
                return self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Return whether a template may see an attribute; it depends on the type of the object."""
        key = (type(obj), attr)
        known = self._safe.get(key)
        if known is None:
            known = super().is_safe_attribute(obj, attr, value)
            if len(self._safe) < _KEPT:
                self._safe[key] = known
        return known
