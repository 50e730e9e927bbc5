"""How the turns of an episode are written as JSON values, and read again.

A turn refers to its parent by index, and a parent stands before its children. What is written is read back exactly; see
`strands_sglang.rollout.saved`. A field that is added makes a new version, with an upgrader from the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from strands_sglang.errors import RecordError
from strands_sglang.rollout.saved import Fields, Format, segment_from_fields, segment_to_dict
from strands_sglang.rollout.values import identities, member, name_of, number, text, whole
from strands_sglang.termination import Termination, TerminationReason

from .turn import Lineage, Turn, TurnFate

FORMAT = Format(name="strands-sglang/trajectory", version=1)


def turns_to_list(turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """Return the turns as JSON values, leaving out what is at its default.

    Raises:
        RecordError: If a turn's parent is not among the turns before it, or a value is not a JSON value.
    """
    index_of: dict[int, int] = {}
    rows = []
    for at, turn in enumerate(turns):
        if turn.index != at:
            raise RecordError(f"turns[{at}] has the index {turn.index}")
        if turn.parent is not None and id(turn.parent) not in index_of:
            raise RecordError(f"the parent of turns[{at}] is not among the turns before it")
        rows.append(_turn_to_dict(turn, None if turn.parent is None else index_of[id(turn.parent)], f"turns[{at}]"))
        index_of[id(turn)] = at
    return rows


def _turn_to_dict(turn: Turn, parent: int | None, place: str) -> dict[str, Any]:
    row: dict[str, Any] = {
        "parent": parent,
        "conversation": whole(turn.conversation, f"{place}.conversation"),
        "lineage": member(turn.lineage, Lineage, f"{place}.lineage"),
        "fate": member(turn.fate, TurnFate, f"{place}.fate"),
        "prompt": segment_to_dict(turn.prompt, f"{place}.prompt"),
        "sampled": segment_to_dict(turn.sampled, f"{place}.sampled"),
    }
    if turn.images:
        row["images"] = identities(turn.images, f"{place}.images")
    if turn.credit:
        row["credit"] = {
            name_of(name, f"{place}.credit"): number(value, f"{place}.credit.{name}")
            for name, value in turn.credit.items()
        }
    return row


def turns_from_fields(fields: Fields) -> list[Turn]:
    """Read what `turns_to_list` wrote, from the field "turns"."""
    turns: list[Turn] = []
    for at, row in enumerate(fields.take_list("turns", dict)):
        turns.append(_turn_from_fields(Fields(row, fields.noun, f"turns[{at}]"), turns))
    return turns


def _turn_from_fields(fields: Fields, before: Sequence[Turn]) -> Turn:
    parent = fields.take("parent", int, type(None))
    if parent is not None and not 0 <= parent < len(before):
        fields.fail("parent", f"is {parent}, but a parent is one of the {len(before)} turns before")
    given = Fields(fields.take("credit", dict, default={}), fields.noun, fields.place_of("credit"))
    credit = {name: given.take_number(name, optional=False) for name in given.names}
    turn = Turn(
        index=len(before),
        parent=None if parent is None else before[parent],
        prompt=segment_from_fields(fields.inner("prompt")),
        sampled=segment_from_fields(fields.inner("sampled")),
        conversation=fields.take("conversation", int),
        lineage=fields.take_member("lineage", Lineage),
        fate=fields.take_member("fate", TurnFate),
        images=tuple(fields.take_value("images", identities, default=[])),
        credit=credit,
    )
    fields.close()
    if turn.prompt.is_sampled or not turn.sampled.is_sampled:
        fields.fail(None, "must hold a prompt segment as `prompt` and a sampled one as `sampled`")
    if turn.prompt.replaces > (0 if turn.parent is None else len(turn.parent.sampled)):
        fields.fail("prompt.replaces", f"is {turn.prompt.replaces}, but fewer ids were sampled before it")
    return turn


def termination_to_dict(termination: Termination | None) -> dict[str, Any] | None:
    """Return an ending as JSON values."""
    if termination is None:
        return None
    reason = member(termination.reason, TerminationReason, "termination.reason")
    return {"reason": reason, "detail": text(termination.detail, "termination.detail")}


def termination_from_fields(fields: Fields) -> Termination | None:
    """Read what `termination_to_dict` wrote, from the field "termination"."""
    saved = fields.take("termination", dict, type(None))
    if saved is None:
        return None
    inner = Fields(saved, fields.noun, fields.place_of("termination"))
    termination = Termination(reason=inner.take_member("reason", TerminationReason), detail=inner.take("detail", str))
    inner.close()
    return termination
