"""`PromptIds`: ids that know their JSON."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strands_sglang.errors import SGLangConfigError
from strands_sglang.wire import PromptIds

ID_LISTS = st.lists(st.integers(0, 200_000), max_size=20)


@given(st.lists(ID_LISTS, max_size=8))
def test_extending_gives_the_encoding_of_all_ids(parts: list[list[int]]) -> None:
    prompt = PromptIds()
    for part in parts:
        prompt = prompt.extended(part)

    whole = [token for part in parts for token in part]
    assert whole == list(prompt)
    assert whole == orjson.loads(b"[" + b"".join(prompt.json) + b"]")
    assert max(whole, default=-1) == prompt.highest


@given(ID_LISTS, ID_LISTS, ID_LISTS)
def test_two_branches_of_one_prompt_do_not_touch_each_other(start: list[int], one: list[int], two: list[int]) -> None:
    prompt = PromptIds(start)
    left, right = prompt.extended(one), prompt.extended(two)

    assert (start, start + one, start + two) == (list(prompt), list(left), list(right))


def test_extending_encodes_only_what_is_new() -> None:
    prompt = PromptIds(range(1000))

    assert prompt.json[0] is prompt.extended([1, 2]).json[0]


def test_the_highest_id_is_known_after_extending_whenever_it_is_asked() -> None:
    early = PromptIds([1, 9, 2])

    assert early.highest == 9
    assert early.extended([3]).highest == 9
    assert early.extended([3, 11, 4]).highest == 11


def test_a_prompt_is_a_sequence_equal_to_its_list() -> None:
    prompt = PromptIds([5, 6, 7])

    assert prompt == [5, 6, 7]
    assert prompt == (5, 6, 7)
    assert PromptIds([5]).extended([6, 7]) == prompt
    assert hash(PromptIds([5, 6, 7])) == hash(prompt)
    assert prompt != "567"
    assert prompt[1:] == [6, 7]
    assert prompt[-1] == 7
    assert 6 in prompt
    assert repr(prompt) == "PromptIds(3 ids)"


@pytest.mark.parametrize("bad", [-1, 1.0, True, None, "7", [7]])
def test_what_is_no_id_is_refused_with_its_position(bad: Any) -> None:
    with pytest.raises(SGLangConfigError, match="position 2"):
        PromptIds([1, 2, bad])


def test_an_id_of_more_than_31_bits_is_refused() -> None:
    with pytest.raises(SGLangConfigError, match="below 2"):
        PromptIds([1, 2**31])


@given(st.lists(ID_LISTS, max_size=6), st.slices(40))
def test_indices_and_slices_are_those_of_the_list(parts: list[list[int]], part: slice) -> None:
    prompt, whole = PromptIds(), [token for part in parts for token in part]
    for ids in parts:
        prompt = prompt.extended(ids)

    assert whole[part] == prompt[part]
    assert whole == [prompt[i] for i in range(len(whole))]
    assert whole == [prompt[i - len(whole)] for i in range(len(whole))]
    assert next((ids for ids in reversed(parts) if ids), []) == list(prompt.newest)


def test_an_object_that_json_does_not_know_is_refused() -> None:
    with pytest.raises(SGLangConfigError, match="plain integers"):
        PromptIds([1, object()])  # type: ignore[list-item]


@given(ID_LISTS, st.slices(20))
def test_a_prompt_that_is_sent_once_is_the_same_prompt(ids: list[int], part: slice) -> None:
    once = PromptIds.once(ids)

    assert (once.json, len(once)) == (PromptIds(ids).json, len(ids))
    assert once.highest == max(ids, default=-1)
    assert once == ids
    assert list(once.newest) == ids
    assert once[part] == ids[part]
    assert once.extended([7, 8]) == [*ids, 7, 8]


@pytest.mark.parametrize(
    "bad", [-1, 1.5, 1e16, float("nan"), True, False, None, "7", [1], {"a": 1}, 2**70], ids=lambda bad: repr(bad)
)
def test_a_prompt_that_is_sent_once_refuses_what_is_no_id(bad: Any) -> None:
    with pytest.raises(SGLangConfigError, match=r"plain integers|position 2"):
        PromptIds.once([1, 2, bad])


@pytest.mark.parametrize("bad", [2**31, 2**40, 2**63])
def test_ids_of_more_than_31_bits_are_known_in_a_prompt_that_is_sent_once_and_not_kept(bad: int) -> None:
    once = PromptIds.once([1, bad])

    assert once.highest == bad
    for keep in (lambda: once.newest, lambda: once.extended([2]), lambda: once[0]):
        with pytest.raises(SGLangConfigError, match="below 2"):
            keep()


def test_a_prompt_that_is_sent_once_does_not_change_with_its_list() -> None:
    ids = [1, 2, 3]
    once = PromptIds.once(ids)
    ids.append(4)

    assert once == [1, 2, 3]
