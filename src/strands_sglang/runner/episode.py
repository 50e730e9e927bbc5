"""One episode as it came out: its record, how it ended, and what belongs to it.

`Episode.record()` is the trajectory with everything else of the episode in its `metadata["episode"]`, so that a line of
JSON is the whole episode; `Episode.of_record` reads it back. Nothing of the tokens is ever changed here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from strands_sglang.errors import RecordFormatError
from strands_sglang.provider.model import SGLangModel
from strands_sglang.termination import Termination, TerminationReason
from strands_sglang.trajectory import Sample, Trajectory

from .prompts import Prompt, jsonable

EPISODE_FIELD = "episode"
"""Key of a trajectory's metadata under which its episode is described."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeContext:
    """What an agent factory may want to know of the episode that it makes an agent for.

    Attributes:
        prompt: The prompt, with its row.
        key: The prompt's key within the run.
        group_index: Position of the episode within the prompt's group, from 0.
        attempt: 0 for the first attempt, 1 for the first retry, and so on.
        model: Makes a model over the server that the run was given (`strands-sglang run --base-url`), with further
            options as keywords; None where it was given none.
    """

    prompt: Prompt
    key: str
    group_index: int = 0
    attempt: int = 0
    model: Callable[..., SGLangModel] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Episode:
    """One episode.

    Attributes:
        trajectory: The record; its termination, reward, group and metadata are filled in.
        messages: The agent's history as it was at the end, also where the host would have cut it afterwards.
        termination: Why it ended.
        prompt: What it began with.
        key: The prompt's key within the run.
        answer: The text of the last answer; empty where there is none.
        group_id: The prompt's key; None where the episode belongs to no run.
        group_index: Position among the episodes of the prompt, from 0.
        retries: How many attempts were made before this one; their endings are in `metrics["attempts"]`.
        partial: Whether it was stopped from outside before its end.
        metrics: Numbers: seconds, turns, tool calls, tokens, and so on; all of them JSON values.
        result: What the last invocation returned; None where none did, and where it was read from a record.
        error: What ended it; None where nothing was raised, and where it was read from a record.
    """

    trajectory: Trajectory
    messages: Sequence[Mapping[str, Any]]
    termination: Termination
    prompt: Prompt
    key: str
    answer: str = ""
    group_id: str | None = None
    group_index: int = 0
    retries: int = 0
    partial: bool = False
    metrics: Mapping[str, Any] = field(default_factory=dict)
    result: Any = field(default=None, repr=False)
    error: BaseException | None = field(default=None, repr=False)

    @property
    def finished(self) -> bool:
        """Whether it came to an end of its own: not stopped from outside, and no fault of infrastructure or set-up."""
        return self.termination.finished and not self.partial

    @property
    def reward(self) -> float | None:
        """What the episode is worth; None where nobody said."""
        return self.trajectory.reward

    def samples(self, **options: Any) -> list[Sample]:
        """Return the episode's samples where its ending may be trained, else none; see `Trajectory.samples`."""
        return self.trajectory.samples(**options) if self.termination.trainable and not self.partial else []

    def record(self) -> Trajectory:
        """Return the trajectory with the whole episode described in its metadata, as JSON values."""
        self.trajectory.metadata[EPISODE_FIELD] = {
            "key": self.key,
            "group_index": self.group_index,
            "prompt": jsonable(self.prompt.content),
            "id": self.prompt.id,
            "row": jsonable(self.prompt.row),
            "messages": jsonable(list(self.messages)),
            "answer": self.answer,
            "retries": self.retries,
            "partial": self.partial,
            "metrics": jsonable(self.metrics),
        }
        return self.trajectory

    @classmethod
    def of_record(cls, trajectory: Trajectory) -> Episode:
        """Read an episode from its record.

        Raises:
            RecordFormatError: If the record was not written by a run.
        """
        said = trajectory.metadata.get(EPISODE_FIELD)
        if not isinstance(said, Mapping) or trajectory.termination is None:
            raise RecordFormatError("this record holds no episode of a run: it has no metadata['episode']")
        try:
            return cls(
                trajectory=trajectory,
                messages=said["messages"],
                termination=trajectory.termination,
                prompt=Prompt(content=said["prompt"], id=said["id"], row=said["row"]),
                key=said["key"],
                answer=said["answer"],
                group_id=trajectory.group_id,
                group_index=said["group_index"],
                retries=said["retries"],
                partial=said["partial"],
                metrics=said["metrics"],
            )
        except KeyError as error:
            raise RecordFormatError(f"this record's episode lacks {error}") from error


def stopped(why: str) -> Termination:
    """Return the ending of an episode that was stopped from outside."""
    return Termination(reason=TerminationReason.CANCELLED, detail=why)


def answer_of(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of the last message, if the model wrote it."""
    if not messages or messages[-1]["role"] != "assistant":
        return ""
    return "".join(block["text"] for block in messages[-1]["content"] if "text" in block)
