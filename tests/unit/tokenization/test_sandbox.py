"""The sandbox gives what jinja's own gives."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import pytest
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from strands_sglang.tokenization.sandbox import Sandbox

OBJECTS: list[Any] = [
    {"content": "c", "items": "shadowed", "_private": 1, "format": "f"},
    {},
    ["a"],
    "text",
    ("t",),
    1,
    None,
    len,
    FunctionType((lambda: 1).__code__, {}),
    dict,
]
NAMES = ["content", "items", "keys", "update", "append", "_private", "__class__", "format", "strip", "mro", "func_code"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("subject", OBJECTS, ids=lambda subject: type(subject).__name__)
def test_an_attribute_is_what_jinja_gives(subject: Any, name: str) -> None:
    source = f"{{{{ subject.{name} }}}}|{{{{ subject['{name}'] }}}}|{{{{ subject.{name} is defined }}}}"
    told = []
    for environment in (ImmutableSandboxedEnvironment(), Sandbox(), Sandbox()):
        for _ in range(2):  # the second time from what is kept
            try:
                told.append(environment.from_string(source).render(subject=subject))
            except SecurityError as error:
                told.append(str(error))

    assert len({said.partition(" at 0x")[0] for said in told}) == 1


def test_changing_what_a_template_was_given_stays_refused() -> None:
    environment = Sandbox()
    for _ in range(2):
        for source in ("{{ subject.append(1) }}", "{{ subject['append'](1) }}"):
            with pytest.raises(SecurityError):
                environment.from_string(source).render(subject=[])
