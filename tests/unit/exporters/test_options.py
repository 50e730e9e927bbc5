"""Options of every exporter take what their type says, and nothing else."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args, get_type_hints

import pytest

from strands_sglang.errors import SGLangConfigError
from strands_sglang.exporters import EXPORTERS, Exporter, get_exporter
from strands_sglang.exporters.options import option_of_text

from .readers import READERS

OPTIONS = [(name, field.name) for name in sorted(READERS) for field in dataclasses.fields(EXPORTERS[name])]
BAD: dict[Any, list[Any]] = {
    bool: ["False", 0, 1, None, []],
    int: ["1", 1.0, True, []],
    float: ["abc", True, float("nan"), float("inf"), 10**400, []],
    str: [3, True, b"x", ["a"]],
    tuple[str, ...]: ["score", 3, [1], None],
}


def parts(name: str, option: str) -> tuple[Any, ...]:
    hint = get_type_hints(EXPORTERS[name])[option]
    return get_args(hint) if type(None) in get_args(hint) else (hint,)


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_a_value_of_another_type_is_refused_and_its_types_are_listed(name: str, option: str) -> None:
    kinds = parts(name, option)
    bad = [value for value in BAD.get(kinds[0], [3, "something", ["a"]]) if value is not None or len(kinds) == 1]

    for value in bad:
        with pytest.raises(SGLangConfigError, match=f"{name}: {option}=.*; it can be "):
            get_exporter(name, **{option: value})


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_the_default_can_be_given(name: str, option: str) -> None:
    cls = EXPORTERS[name]
    default = getattr(get_exporter(name), option)

    assert getattr(get_exporter(name, **{option: default}), option) == default
    if option in cls.choices:
        for choice in cls.choices[option]:
            assert option_of_text(cls, option, choice) == choice


@pytest.mark.parametrize(
    ("name", "option", "text", "value"),
    [
        ("areal", "turn_ids", "True", True),
        ("areal", "unknown_version", "-1", -1),
        ("areal", "unknown_version", "null", None),
        ("tinker", "missing_credit", "0", 0),
        ("tinker", "advantage", "7", "7"),
        ("tinker", "advantage", '"a b"', "a b"),
        ("tinker", "advantage", "null", "null"),
        ("skyrl", "token_rewards", "null", None),
        ("prime_rl", "temperature", "0.5", 0.5),
        ("verl", "extra_credit", '["a", "b"]', ["a", "b"]),
        ("verl", "extra_credit", "a", ("a",)),
        ("verl", "no_such_option", "a", "a"),
    ],
)
def test_a_text_is_read_as_the_option_takes_it(name: str, option: str, text: str, value: Any) -> None:
    found = option_of_text(EXPORTERS[name], option, text)

    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("option", "text"), [("turn_ids", "1"), ("unknown_version", "1.5"), ("unknown_version", "zero"), ("turn_ids", "[")]
)
def test_a_text_that_an_option_does_not_take_is_refused(option: str, text: str) -> None:
    with pytest.raises(SGLangConfigError, match="it can be "):
        option_of_text(EXPORTERS["areal"], option, text)


def test_an_exporter_written_elsewhere_is_checked_too() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Mine(Exporter):
        name: ClassVar[str] = "mine"
        depth: Literal[1, 2] = 1
        anything: Any = None

    assert Mine(depth=2, anything={1}).depth == 2
    with pytest.raises(SGLangConfigError, match="mine: depth=3; it can be 1, 2"):
        Mine(depth=3)  # type: ignore[arg-type]
