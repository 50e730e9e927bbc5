"""One sample and its episode, with the columns every exporter needs.

For a `Row`, `len(token_ids) == len(mask) == len(logprobs) == len(versions)`; the first `prompt_length` tokens, at
least one, are the initial prompt and have mask 0. The columns are the record's own: nothing is filled in here.
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile, zip_longest
from typing import Any, NoReturn, TypeVar

from strands_sglang.errors import ExportError
from strands_sglang.rollout import Rollout
from strands_sglang.trajectory import Sample, Trajectory, Turn

T = TypeVar("T")

Decode = Callable[[Sequence[int]], str]
"""Gives the text of token ids, such as `tokenizer.decode`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What one segment of the record contributes to a row.

    Attributes:
        turn: The turn that the segment belongs to.
        start: Position of its first token in the row.
        end: One past its last token; `end - start` is less than the segment where the next prompt replaces some.
        sampled: Whether the engine sampled it.
    """

    turn: Turn
    start: int
    end: int
    sampled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Where a turn stands in a row.

    Attributes:
        turn: The turn.
        prompt_start: Position of the first token of its prompt.
        start: Position of its first sampled token.
        end: One past its last sampled token that stands in the row.
    """

    turn: Turn
    prompt_start: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One sample as columns over all its tokens.

    Attributes:
        episode: The episode it was cut from.
        sample: The sample.
        siblings: How many samples of the episode are exported.
        token_ids: Every token, prompt and sampled.
        mask: 1 where a token is trainable in this row.
        logprobs: The engine's log-probabilities, None where not measured.
        versions: Weight version of each sampled token, None elsewhere.
        prompt_length: Tokens before the first sampled one.
    """

    episode: Trajectory
    sample: Sample
    siblings: int
    token_ids: list[int]
    mask: list[int]
    logprobs: list[float | None]
    versions: list[str | None]
    prompt_length: int

    @classmethod
    def of(cls, episode: Trajectory, sample: Sample, siblings: int) -> Row:
        """Read the columns of a sample.

        Raises:
            ExportError: If its first token is a sampled one: no trainer can learn a token that follows nothing.
        """
        rollout = sample.rollout
        prompt_length = _before_the_first_sampled(rollout)
        if not prompt_length:
            raise ExportError(f"{_name(episode, sample)} begins with a sampled token, after no prompt at all")
        return cls(
            episode=episode,
            sample=sample,
            siblings=siblings,
            token_ids=rollout.token_ids,
            mask=list(sample.loss_mask),
            logprobs=rollout.logprobs,
            versions=rollout.weight_versions,
            prompt_length=prompt_length,
        )

    def with_mask(self, mask: list[int]) -> Row:
        """Return the row with another mask."""
        return replace(self, mask=mask)

    @property
    def name(self) -> str:
        """The row in words, for error messages."""
        return _name(self.episode, self.sample)

    @property
    def metadata(self) -> dict[str, Any]:
        """The episode's metadata, copied, so that a row may be changed."""
        return copy.deepcopy(self.episode.metadata)

    @property
    def trainable(self) -> int:
        """Number of trainable tokens."""
        return sum(self.mask)

    def response(self, column: list[T]) -> list[T]:
        """Return the part of a column after the initial prompt."""
        return column[self.prompt_length :]

    def trained(self, column: list[T]) -> list[T]:
        """Return the part of a column at the trainable tokens."""
        return [value for value, mask in zip(column, self.mask, strict=True) if mask]

    def filled_logprobs(self, missing: float, *, context: float | None = None) -> list[float]:
        """Return the logprobs as numbers: the measured one at trainable tokens, and elsewhere what is given.

        Args:
            missing: At a trainable token that has none.
            context: At a token that is not trainable; default: as `missing`.
        """
        outside = missing if context is None else context
        return [
            (missing if value is None else value) if mask else outside
            for value, mask in zip(self.logprobs, self.mask, strict=True)
        ]

    def spans(self) -> list[Span]:
        """Return where each turn of the branch stands in the row, in order, also one without any tokens."""
        spans: list[Span] = []
        position = 0
        turns = self.sample.turns
        for turn, after in zip_longest(turns, turns[1:]):
            start = position + len(turn.prompt)
            end = start + len(turn.sampled) - (after.prompt.replaces if after is not None else 0)
            spans.append(Span(turn=turn, prompt_start=position, start=start, end=end))
            position = end
        return spans

    def pieces(self) -> list[Piece]:
        """Return where each segment of the record stands in the row, in order; empty ones are left out."""
        pieces: list[Piece] = []
        for span in self.spans():
            for start, end, sampled in ((span.prompt_start, span.start, False), (span.start, span.end, True)):
                if end > start:
                    pieces.append(Piece(turn=span.turn, start=start, end=end, sampled=sampled))
        return pieces

    def trained_pieces(self) -> list[Piece]:
        """Return the sampled segments that have a trainable token."""
        return [piece for piece in self.pieces() if piece.sampled and any(self.mask[piece.start : piece.end])]

    def credit(self, name: str, *, missing: float | None) -> list[float | None] | None:
        """Spread a per-turn number over the trainable tokens.

        Args:
            name: Key of `Turn.credit`.
            missing: What a trained turn without that number gets; None to refuse it.

        Returns:
            A number at each trainable token and None elsewhere; None where no trained turn has that number.

        Raises:
            ExportError: If some trained turns have it, others do not, and `missing` is None.
        """
        pieces = self.trained_pieces()
        without = [piece.turn.index for piece in pieces if name not in piece.turn.credit]
        if len(without) == len(pieces):
            return None
        if without and missing is None:
            self.lacks_credit(name)
        return self.spread(name, missing=missing)

    def spread(self, name: str, *, missing: float | None = None) -> list[float | None]:
        """Return a per-turn number at each token that is trainable in this row, None elsewhere.

        Args:
            name: Key of `Turn.credit`.
            missing: What stands at the tokens of a turn without that number.
        """
        values: list[float | None] = [None] * len(self.token_ids)
        for piece in self.trained_pieces():
            number = piece.turn.credit.get(name, missing)
            for position in range(piece.start, piece.end):
                values[position] = number if self.mask[position] else None
        return values

    def lacks_credit(self, name: str) -> NoReturn:
        """Refuse a row some of whose trained turns have no such per-turn number.

        Raises:
            ExportError: Always.
        """
        without = [piece.turn.index for piece in self.trained_pieces() if name not in piece.turn.credit]
        raise ExportError(
            f"{self.name}: turns {without} have no credit {name!r}",
            hint=f"set turn.credit[{name!r}], or say what such turns get with missing_credit=",
        )

    def version_numbers(self, *, unknown: int | None) -> list[int | None]:
        """Return the weight version of each trainable token as an integer, None elsewhere.

        Args:
            unknown: What a token gets whose version is not told or is not an integer; None to refuse it.

        Raises:
            ExportError: If there is such a token and `unknown` is None.
        """
        numbers: list[int | None] = []
        for position, (version, mask) in enumerate(zip(self.versions, self.mask, strict=True)):
            number = integer_of(version)
            if mask and number is None:
                if unknown is None:
                    told = f"{version!r} is no integer" if version is not None else "is not told"
                    raise ExportError(
                        f"{self.name}: the weight version at token {position} {told}",
                        hint="give the server integer versions when weights are updated, or say what such tokens get "
                        "with unknown_version=",
                    )
                number = unknown
            numbers.append(number if mask else None)
        return numbers

    @property
    def unknown_versions(self) -> int:
        """Number of trainable tokens whose weight version is not told or is not an integer."""
        return sum(integer_of(version) is None for version in self.trained(self.versions))

    def reward(self) -> float:
        """Return the episode's reward.

        Raises:
            ExportError: If it has none.
        """
        if self.episode.reward is None:
            raise ExportError(f"{self.name} has no reward; set trajectory.reward before the export")
        return float(self.episode.reward)


def _before_the_first_sampled(rollout: Rollout) -> int:
    """Return how many tokens stand before the first sampled one; an answer without any does not end the prompt."""
    before = takewhile(lambda part: not (part[0] and part[1]), rollout.segment_info)
    return sum(length for _, length in before)


def number_of(identity: str) -> int:
    """Return an integer for an identity: itself where it is one, else 62 bits of its hash, alike in every process."""
    known = integer_of(identity)
    if known is not None:
        return known
    return int.from_bytes(hashlib.blake2b(identity.encode(), digest_size=8).digest(), "big") >> 2


def integers_of(versions: Sequence[str | None]) -> list[int]:
    """Return weight versions as integers; none at all where one of them is not told or is not an integer.

    The oldest of some tokens says nothing about the others: they may be older still.
    """
    numbers = [number for version in versions if (number := integer_of(version)) is not None]
    return numbers if len(numbers) == len(versions) else []


def told(versions: Sequence[str | None]) -> int:
    """Return how many of some weight versions are told."""
    return sum(version is not None for version in versions)


def integer_of(text: str | None) -> int | None:
    """Return the integer that a string writes in the usual way, below 10**18; None for any other string."""
    if text is None or not re.fullmatch(r"0|-?[1-9][0-9]{0,17}", text):
        return None
    return int(text)


def _name(episode: Trajectory, sample: Sample) -> str:
    return f"sample {sample.index} of episode {episode.id}"
