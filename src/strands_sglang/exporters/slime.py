"""slime and miles: the fields of `Sample`, as `Sample.from_dict` takes them.

Both take several samples of one execution, which share `rollout_id`. They differ in what they call the rows of a
sparse-attention indexer, which only miles takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any, ClassVar

from strands_sglang.trajectory import Trajectory

from .base import Alignment, RoutedExporter
from .ending import ending_of
from .held import Held
from .record import KEY, OF_SAMPLE, note_taken, of_sample
from .result import LossBook
from .row import Decode, Row, integer_of, number_of
from .stitching import stitched


@dataclass(frozen=True, kw_only=True)
class SlimeExporter(RoutedExporter):
    """slime's `Sample` (`slime/utils/types.py`), one per sample of the record.

    Alignment: `tokens` is full; `loss_mask` and `rollout_log_probs` run over the response, that is over every token
    after the initial prompt. A token with mask 0 has logprob 0.0, as slime's own rollouts write it; a trainable one
    without logprob is refused, masked, or (`missing_logprob="omit"`) `rollout_log_probs` is None for all.

    `index` and `rollout_id` are the episode's id and `group_index` the group's, as integers: the number itself where
    the id is written as one (`trajectory.id = str(sample.index)`), else a number made of it. `weight_versions` lists
    the versions of the trained turns in order, one entry per version span. An episode whose ending is not trainable has
    `remove_sample` set. `prompt`, `label` and the rest of `metadata` come from `Trajectory.metadata`; beside it,
    `metadata["strands_sglang"]` has ids, ending, lineage and weight as the record has them.

    Where every trained turn has a sampling mask, `rollout_top_p_token_ids` and `rollout_top_p_token_offsets` hold the
    ids that each trainable token was chosen from. Routing: `[len(tokens) - 1, layers, top_k]`, int32. Cannot hold:
    per-turn credit, temperature, images (data URLs), and to which token a weight version belongs.

    Attributes:
        decode: Gives `response`; without it `response` is empty, which the losses count.
    """

    name: ClassVar[str] = "slime"
    alignment: ClassVar[Alignment] = Alignment.RESPONSE
    held: ClassVar[frozenset[Held]] = OF_SAMPLE | {Held.LOGPROBS, Held.REWARD, Held.METADATA, Held.WEIGHT_VERSIONS}
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **RoutedExporter.choices,
        "missing_logprob": ("raise", "mask", "omit"),
    }

    decode: Decode | None = None

    _replays_support: ClassVar[bool] = True

    def _held(self) -> frozenset[Held]:
        # What is lost of sampling masks is noted row by row.
        return RoutedExporter._held(self) | ({Held.SAMPLING_MASK} if self._replays_support else set())

    def _note_metadata(self, episode: Trajectory, losses: LossBook) -> None:
        note_taken(episode, {KEY}, losses)

    def _rows(self, rows: list[Row], losses: LossBook) -> Iterator[dict[str, Any]]:
        if self._replays_support:
            _note_untrained_support(rows, losses)
        for row in rows:
            yield self._row(row, losses)

    def _row(self, row: Row, losses: LossBook) -> dict[str, Any]:
        episode, response = row.episode, row.response(row.token_ids)
        if self.decode is None:
            losses.note("response", 1, "rows", "its text is empty: give decode=tokenizer.decode")
        versions = _versions(row, losses)
        metadata = row.metadata
        fields = {
            "group_index": number_of(episode.group_id) if episode.group_id is not None else None,
            "index": number_of(episode.id),
            "rollout_id": number_of(episode.id),
            "prompt": metadata.pop("prompt", ""),
            "tokens": row.token_ids,
            "response": self.decode(response) if self.decode is not None else "",
            "response_length": len(response),
            "label": metadata.pop("label", None),
            "reward": episode.reward,
            "loss_mask": row.response(row.mask),
            "weight_versions": versions,
            "rollout_log_probs": None if self.omits_logprobs else row.response(row.filled_logprobs(0.0)),
            "remove_sample": not any(row.mask),
            "status": ending_of(row).value,
            "metadata": {**metadata, KEY: of_sample(row)},
        }
        if self._replays_support:
            fields |= _support(row, losses)
        rows_of_experts = self._routing(row, lambda routing: routing.fed_rows(missing=self.missing_routing))
        if rows_of_experts is not None:
            fields["rollout_routed_experts"] = rows_of_experts.astype("int32")
        return fields


@dataclass(frozen=True, kw_only=True)
class MilesExporter(SlimeExporter):
    """miles' `Sample` (`miles/utils/types.py`): as slime's, and `rollout_indexer_topk` beside the routing rows.

    Alignment, missing values and losses are slime's. Miles reads only weight versions that are integers, and has no
    place for sampling masks.

    Attributes:
        indexer_layers: Layers with a sparse-attention indexer; with it the indexer's rows are exported, and required.
        index_topk: Positions that the indexer chooses per token.
    """

    name: ClassVar[str] = "miles"

    indexer_layers: int | None = None
    index_topk: int | None = None

    _replays_support: ClassVar[bool] = False

    def _held(self) -> frozenset[Held]:
        held = SlimeExporter._held(self)
        return held | {Held.INDEXER_TOPK} if self._takes_indexer else held

    @property
    def _takes_indexer(self) -> bool:
        return self.indexer_layers is not None or self.index_topk is not None

    def _row(self, row: Row, losses: LossBook) -> dict[str, Any]:
        fields = SlimeExporter._row(self, row, losses)
        unread = sum(integer_of(version) is None for version in fields["weight_versions"])
        losses.note("weight_versions", unread, "spans", "miles reads integers only, and takes these for unknown")
        if self._takes_indexer:
            indexer = stitched(row, "indexer_topk", self.indexer_layers, self.index_topk)
            fields["rollout_indexer_topk"] = indexer.fed_rows(missing=self.missing_routing).astype("int32")
        return fields


def _versions(row: Row, losses: LossBook) -> list[str]:
    """Return the weight versions of the trained turns, and note where it is not told whose they are."""
    versions: list[str] = []
    silent = 0
    for piece in row.trained_pieces():
        spans = [version for version, start, end in piece.turn.sampled.weight_spans if end > start]
        unknown = None in row.versions[piece.start : piece.end]
        if len(set(spans)) > 1 or (spans and unknown):
            why = "sampled under several weights, or some that are not told; which tokens is not held"
            losses.note("weight_versions", 1, "turns", why)
        silent += not spans
        versions += spans
    why = "other turns of the row tell none and have no entry; whose an entry is is not held"
    losses.note("weight_versions", len(versions) if silent else 0, "spans", why)
    return versions


def _note_untrained_support(rows: list[Row], losses: LossBook) -> None:
    """Note the sampling masks of turns of which nothing is trained in any row."""
    trained = {id(piece.turn) for row in rows for piece in row.trained_pieces()}
    others = {id(turn): turn for row in rows for turn in row.sample.turns if id(turn) not in trained}
    count = sum(turn.sampled.facts.get("sampling_mask") is not None for turn in others.values())
    losses.note(Held.SAMPLING_MASK, count, "turns", "nothing of them is trained")


def _support(row: Row, losses: LossBook) -> dict[str, Any]:
    """Return the ids that each trainable token was chosen from, over the response; nothing where some are unknown."""
    pieces = row.trained_pieces()
    masks = [piece.turn.sampled.support for piece in pieces]
    known = [mask for mask in masks if mask is not None]
    if not known or len(known) < len(masks):
        losses.note(Held.SAMPLING_MASK, len(known), "turns", "other turns of the row have none, and slime takes all")
        return {}
    spans: list[list[int]] = [[] for _ in row.token_ids]
    for piece, mask in zip(pieces, known, strict=True):
        for position, ids in zip(range(piece.start, piece.end), mask, strict=False):
            spans[position] = ids if row.mask[position] else []
    response = row.response(spans)
    return {
        "rollout_top_p_token_ids": list(chain.from_iterable(response)),
        "rollout_top_p_token_offsets": [0, *accumulate(map(len, response))],
    }
