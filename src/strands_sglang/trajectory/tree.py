"""`Trajectory`: all turns of one episode.

Each turn is a prompt segment and a sampled segment after a parent turn. A branch is a path from a root to a leaf;
its segments, end to end, are exactly what the engine read and sampled for its last turn. Over all samples each sampled
token is trainable in exactly one (guarantee G10): the first branch, in order of its leaf's creation, that holds it.
Turns are only added and marked, never changed or removed.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from strands_sglang.rollout import Rollout
from strands_sglang.rollout.saved import pydantic_schema
from strands_sglang.rollout.values import identity, number, optional, plain_object, whole
from strands_sglang.termination import Termination

from .report import Decode, Report, report
from .sample import Sample
from .saved import FORMAT, termination_from_fields, termination_to_dict, turns_from_fields, turns_to_list
from .turn import Lineage, Turn, TurnFate

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Trajectory:
    """All turns of one episode, in every conversation and branch.

    Attributes:
        id: Identity shared by all samples of the episode.
        turns: Every committed turn, in order of commit.
        termination: Why the episode ended; None until someone says so (the runner does).
        reward: What the whole episode is worth; None until someone says so.
        group_id: Identity shared by the episodes of one prompt, None outside a group.
        group_index: Position within the group.
        metadata: Whatever else belongs to the episode, as JSON values.
    """

    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    turns: list[Turn] = field(default_factory=list)
    termination: Termination | None = None
    reward: float | None = None
    group_id: str | None = None
    group_index: int | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trajectory):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]  # equal by value and growing

    def __repr__(self) -> str:
        ending = None if self.termination is None else self.termination.reason.value
        return (
            f"Trajectory(id={self.id!r}, turns={len(self.turns)}, branches={len(self.leaves)}, reward={self.reward}, "
            f"termination={ending})"
        )

    def add(self, turn: Turn) -> None:
        """Append a committed turn."""
        self.turns.append(turn)

    @property
    def leaves(self) -> list[Turn]:
        """The turns that no other turn follows, in order of commit."""
        followed = {id(turn.parent) for turn in self.turns if turn.parent is not None}
        return [turn for turn in self.turns if id(turn) not in followed]

    @property
    def branches(self) -> list[Rollout]:
        """Every branch, also discarded ones and side calls, in order of its last turn."""
        return [leaf.rollout() for leaf in self.leaves]

    def samples(self, *, include_side_calls: bool = False, include_discarded: bool = False) -> list[Sample]:
        """Cut the episode into samples, each sampled token trainable in exactly one of them.

        Args:
            include_side_calls: Also the branches of side calls and of other agents' loops.
            include_discarded: Also answers that the host threw away.

        Returns:
            One sample per branch that has a trainable token.
        """
        chosen = {
            id(turn)
            for turn in self.turns
            if (include_side_calls or turn.lineage is Lineage.MAIN)
            and (include_discarded or turn.fate is not TurnFate.DISCARDED)
        }
        rows: list[tuple[Turn, list[int]]] = []
        trained: dict[int, int] = {}
        for leaf in self._sample_leaves(chosen):
            mask = list(self._mask(leaf, chosen, trained))
            if any(mask):
                rows.append((leaf, mask))
        return [
            Sample(
                rollout_id=self.id,
                rollout=leaf.rollout(),
                loss_mask=mask,
                lineage=leaf.lineage,
                weight=1 / len(rows),
                turns=tuple(leaf.path()),
                index=index,
            )
            for index, (leaf, mask) in enumerate(rows)
        ]

    def report(self, decode: Decode | None = None) -> Report:
        """Tell what in the episode was not plain: forks and why, answers thrown away, cut or retried turns, and more.

        Args:
            decode: Turns ids into text, such as `ChatTokenizer.decode`; with it, the text around each place is shown.
        """
        return report(list(self.turns), decode)

    def _sample_leaves(self, chosen: set[int]) -> Iterator[Turn]:
        """Yield the last chosen turns of each branch: those without a chosen follower."""
        followed: set[int] = set()
        for turn in self.turns:
            earlier = turn.parent if id(turn) in chosen else None
            while earlier is not None and id(earlier) not in followed:
                followed.add(id(earlier))
                earlier = earlier.parent
        yield from (turn for turn in self.turns if id(turn) in chosen and id(turn) not in followed)

    @staticmethod
    def _mask(leaf: Turn, chosen: set[int], trained: dict[int, int]) -> Iterator[int]:
        """Yield the mask of a branch, noting how many ids of each turn are trained.

        What is trained in another branch counts as context. Of a turn whose end was replaced there and stands here, the
        end is trained here.
        """
        path = leaf.path()
        for turn, after in zip_longest(path, path[1:]):
            yield from [0] * len(turn.prompt)
            length = len(turn.sampled) - (after.prompt.replaces if after else 0)
            done = min(trained.get(id(turn), 0), length) if id(turn) in chosen else length
            trained[id(turn)] = max(trained.get(id(turn), 0), length)
            yield from [0] * done
            yield from [1] * (length - done)

    def to_dict(self) -> dict[str, Any]:
        """Return the episode as JSON values, with format and version.

        Raises:
            RecordError: If a part of it (an id, facts, credit, metadata) would not be read again as it is.
        """
        return {
            **FORMAT.header(),
            "id": identity(self.id, "id"),
            "turns": turns_to_list(list(self.turns)),
            "termination": termination_to_dict(self.termination),
            "reward": optional(number)(self.reward, "reward"),
            "group_id": optional(identity)(self.group_id, "group_id"),
            "group_index": optional(whole)(self.group_index, "group_index"),
            "metadata": plain_object(self.metadata, "metadata"),
        }

    def to_json(self) -> str:
        """Return the episode as one line of JSON; `from_json` gives an equal one back."""
        return FORMAT.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Trajectory:
        """Read what `to_dict` wrote, in this release or an older one.

        Raises:
            RecordFormatError: If it is of another format or an unknown version, or damaged; it names the place.
        """
        fields = FORMAT.open(saved)
        trajectory = cls(
            id=fields.take_value("id", identity),
            turns=turns_from_fields(fields),
            termination=termination_from_fields(fields),
            reward=fields.take_number("reward"),
            group_id=fields.take_value("group_id", optional(identity)),
            group_index=fields.take("group_index", int, type(None)),
            metadata=fields.take_value("metadata", plain_object),
        )
        fields.close()
        return trajectory

    @classmethod
    def from_json(cls, text: str | bytes) -> Trajectory:
        """Read what `to_json` wrote.

        Raises:
            RecordFormatError: If it is not JSON, of another format or an unknown version, or damaged.
        """
        return cls.from_dict(FORMAT.loads(text))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Let an episode be a field of a pydantic model."""
        return pydantic_schema(cls)
