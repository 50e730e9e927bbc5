"""NeMo-RL: a `DatumSpec` with its message log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar

from strands_sglang.trajectory import Trajectory

from .arrays import CHOICES, Arrays, column
from .base import Alignment, RoutedExporter
from .ending import Ending, ending_of
from .held import Held
from .record import KEY, OF_SAMPLE, note_taken, of_sample
from .result import LossBook
from .row import Decode, Piece, Row, number_of


@dataclass(frozen=True, kw_only=True)
class NeMoRLExporter(RoutedExporter):
    """NeMo-RL's `DatumSpec` (`nemo_rl/data/interfaces.py`), one per sample of the record.

    Alignment: a message per run of tokens with one mask, each with its own `token_ids`; end to end they are the sample.
    NeMo-RL trains messages by their role: trainable tokens are "assistant", all others "user", also what a tool wrote
    or what was sampled and is trained in another sample. `generation_logprobs` stands on the "assistant" messages only;
    a trainable token without logprob is refused or masked.

    `loss_multiplier` is the sample's weight (1 over the samples of its episode), 0.0 where nothing in it is trained.
    `idx` is the group's (or, outside a group, the episode's) id as an integer. `total_reward` and `truncated` are what
    NeMo-RL's own rollouts add to a batch; `extra_env_info` is `Trajectory.metadata`, and beside it under
    `strands_sglang` ids, ending, lineage and weight as the record has them.

    Routing: `routed_experts` `[n, layers, top_k]` on every message, zeros for the last token, int16 or int32. Cannot
    hold: per-turn credit, weight versions, images, temperature.

    Attributes:
        decode: Gives `content`; without it `content` is empty, which the losses count.
        arrays: "numpy" for int64 and float32 arrays, "list" for lists; `torch.as_tensor` takes either.
    """

    name: ClassVar[str] = "nemo_rl"
    alignment: ClassVar[Alignment] = Alignment.TURN
    held: ClassVar[frozenset[Held]] = OF_SAMPLE | {Held.LOGPROBS, Held.REWARD, Held.METADATA}
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {**RoutedExporter.choices, "arrays": CHOICES}

    decode: Decode | None = None
    arrays: Arrays = "list"

    def _note_metadata(self, episode: Trajectory, losses: LossBook) -> None:
        note_taken(episode, {KEY}, losses)

    def _rows(self, rows: list[Row], losses: LossBook) -> Iterator[dict[str, Any]]:
        for row in rows:
            if self.decode is None:
                losses.note("content", 1, "rows", "the text of its messages is empty: give decode=tokenizer.decode")
            yield {
                "message_log": self._messages(row),
                "length": len(row.token_ids),
                "extra_env_info": {**row.metadata, KEY: of_sample(row)},
                "loss_multiplier": row.sample.weight if row.trainable else 0.0,
                "idx": number_of(row.episode.id if row.episode.group_id is None else row.episode.group_id),
                "total_reward": row.episode.reward,
                "truncated": ending_of(row) is Ending.TRUNCATED,
            }

    def _messages(self, row: Row) -> list[dict[str, Any]]:
        routed = self._routing(row, lambda found: found.padded_rows(missing=self.missing_routing))
        if routed is not None:
            routed = routed.astype("int32" if int(routed.max(initial=0)) > 32767 else "int16")
        logprobs = row.filled_logprobs(0.0)
        messages = []
        for start, end in _runs(row):
            ids = row.token_ids[start:end]
            message: dict[str, Any] = {
                "role": "assistant" if row.mask[start] else "user",
                "content": self.decode(ids) if self.decode is not None else "",
                "token_ids": column(ids, "int64", self.arrays),
            }
            if row.mask[start]:
                message["generation_logprobs"] = column(logprobs[start:end], "float32", self.arrays)
            if routed is not None:
                rows = routed[start:end].copy()
                message["routed_experts"] = rows if self.arrays == "numpy" else rows.tolist()
            messages.append(message)
        return messages


def _runs(row: Row) -> Iterator[tuple[int, int]]:
    """Yield the stretches of a row with one mask within one segment."""

    def stretches(piece: Piece) -> Iterator[tuple[int, int]]:
        for _, positions in groupby(range(piece.start, piece.end), key=lambda position: row.mask[position]):
            found = list(positions)
            yield found[0], found[-1] + 1

    for piece in row.pieces():
        yield from stretches(piece)
