"""What a reply says of each token: ids, log-probabilities, weights, routing rows, sampling support.

Owns the agreement of these columns with each other and with the request: as many values as ids, for those very ids,
spans without gaps, rows for the positions asked for. Nothing is padded, cut or defaulted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from .body import Body

_VALUE, _OWNER = itemgetter(0), itemgetter(1)  # of a [log-probability, id, text]


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightSpan:
    """Which weights sampled `output_ids[start:end]`.

    Attributes:
        version: The server's name of the weights.
        start: First position in `output_ids`.
        end: One past the last position.
        widened: The server named one version for the whole reply, and it was taken for every token of it; tokens
            sampled before an update in mid-generation may be older.
    """

    version: str
    start: int
    end: int
    widened: bool = False


class Columns(Body):
    """The columns of one body."""

    def output_ids(self) -> list[int]:
        """Return the sampled ids; as many as the server counted."""
        ids: list[int] = self.take(self.body, "output_ids", list)
        if not set(map(type, ids)) <= {int}:
            self.fail("output_ids holds something that is not an integer")
        if min(ids, default=0) < 0:
            self.fail(f"output_ids holds {min(ids)}, which is no id")
        count = self.take(self.meta, "completion_tokens", int)
        if count != len(ids):
            self.fail(f"it answered {len(ids)} output_ids, but meta_info.completion_tokens is {count}")
        return ids

    def output_logprobs(self, ids: list[int], aborted: bool) -> list[float | None] | None:
        """Return the value of each sampled id, None where not asked for."""
        if not self.request.return_logprob:
            return None
        if "output_token_logprobs" not in self.meta and aborted and not ids:
            return []
        values, owners = self.logprobs("output_token_logprobs")
        if not ids and self.request.max_new_tokens == 0:
            return []  # scoring only: some releases send one value for a token that was not sampled
        if len(values) != len(ids):
            self.fail(f"it answered {len(ids)} output_ids but {len(values)} output_token_logprobs")
        if owners != ids:
            at = next(i for i, (a, b) in enumerate(zip(ids, owners, strict=True)) if a != b)
            self.fail(f"output_ids[{at}] is {ids[at]}, but its log-probability belongs to id {owners[at]}")
        return values

    def input_logprobs(self, aborted: bool) -> list[float | None] | None:
        """Return the values of the last prompt tokens, None where not asked for."""
        request = self.request
        start = request.logprob_start_len
        if not request.return_logprob or start is None or start < 0 or (aborted and not self.meta.get("prompt_tokens")):
            return None
        values, owners = self.logprobs("input_token_logprobs")
        if request.image_data:
            return values  # placeholders are expanded by the server: the positions are its own
        wanted = request.input_ids[start:]
        if len(values) != len(wanted):
            self.fail(f"it answered {len(values)} input_token_logprobs, asked for {len(wanted)} from {start}")
        if owners != list(wanted) and not _are_but_clipped(owners, wanted, max(request.input_ids)):
            self.fail("the ids of input_token_logprobs are not those of the prompt that was sent")
        return values

    def logprobs(self, key: str) -> tuple[list[float | None], list[int]]:
        """Return the values and the ids they belong to."""
        if key not in self.meta:
            self.fail(
                f"log-probabilities were asked for, but meta_info has no {key}",
                hint="a router or proxy in between may drop return_logprob",
            )
        entries: list[Any] = self.take(self.meta, key, list)
        try:
            values = list(map(_VALUE, entries))
            owners = list(map(_OWNER, entries))
        except (TypeError, IndexError, KeyError):
            self.fail(f"meta_info.{key} holds an entry that is not [log-probability, id, text]")
        kinds = set(map(type, values))
        if not kinds <= {float, type(None)}:
            if not kinds <= {float, int, type(None)}:
                self.fail(f"meta_info.{key} holds a log-probability that is not a number")
            values = [None if value is None else float(value) for value in values]
        return values, owners

    def routed_experts(self, ids: list[int], aborted: bool) -> str | None:
        """Return the rows of the routing from the position that was asked for."""
        if not self.request.return_routed_experts:
            return None
        start = self.request.routed_experts_start_len
        return self.rows("routed_experts", len(self.request.input_ids) + len(ids) - 1 - start, aborted)

    def indexer_topk(self, ids: list[int], aborted: bool) -> str | None:
        """Return the rows of a sparse-attention indexer."""
        if not self.request.return_indexer_topk:
            return None
        return self.rows("indexer_topk", len(self.request.input_ids) + len(ids) - 1, aborted)

    def rows(self, key: str, count: int, aborted: bool) -> str | None:
        """Return a base64 text of so many rows of int32."""
        rows: str | None = self.take(self.meta, key, str, optional=True)
        if rows is None and not aborted:
            flag = key.replace("_", "-")
            self.fail(
                f"return_{key} was asked for, but meta_info has no {key}",
                hint=f"start the server with --enable-return-{flag}; some routers drop the field",
            )
        if rows is None or self.request.image_data:  # with images the positions are the server's own
            return rows
        if row_bytes(rows, count) is not None:
            return rows
        if aborted:
            return None  # what carries it on asks for all rows again
        self.fail(
            f"meta_info.{key} is {len(rows)} characters, which are not base64 of {count} rows of int32",
            hint="a server older than 0.5.12 sends all rows whatever routed_experts_start_len says"
            if key == "routed_experts"
            else None,
        )

    def sampling_mask(self, ids: list[int], aborted: bool) -> list[list[int]] | None:
        """Return what truncation left to choose from for each id, None where not asked for."""
        if not self.request.return_sampling_mask:
            return None
        key = "output_token_sampling_mask"
        if not ids and (aborted or key not in self.meta):
            return []
        if key not in self.meta:
            self.fail(
                f"return_sampling_mask was asked for, but meta_info has no {key}",
                hint="it needs SGLang 0.5.16 or newer and no router in between that drops the field",
            )
        rows: list[list[int]] = self.take(self.meta, key, list)
        if len(rows) != len(ids):
            self.fail(f"it answered {len(ids)} output_ids but {len(rows)} rows of {key}")
        for at, (token, row) in enumerate(zip(ids, rows, strict=True)):
            if not isinstance(row, list) or not set(map(type, row)) <= {int}:
                self.fail(f"meta_info.{key}[{at}] is not a list of ids")
            if token not in row:
                self.fail(f"output_ids[{at}] is {token}, which is not among the ids of meta_info.{key}[{at}]")
        return rows

    def sampling_logprobs(self, ids: list[int], mask: list[list[int]]) -> list[float | None]:
        """Return the value of each id among those that were left."""
        key = "output_token_sampling_logprobs"
        if not ids:
            return []
        given: list[Any] = self.take(self.meta, key, list)
        if len(given) != len(ids):
            self.fail(f"it answered {len(ids)} output_ids but {len(given)} {key}")
        values: list[float | None] = []
        for at, (token, row, value) in enumerate(zip(ids, mask, given, strict=True)):
            if isinstance(value, list):  # of all that were left, where the request asked for these
                if len(value) != len(row):
                    self.fail(f"meta_info.{key}[{at}] has {len(value)} values for {len(row)} ids")
                value = value[row.index(token)]
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
                self.fail(f"meta_info.{key}[{at}] is not a number")
            values.append(None if value is None else float(value))
        return values

    def weight_versions(self, count: int) -> tuple[WeightSpan, ...]:
        """Return which weights sampled which ids; nothing where the server does not say."""
        spans = self.take(self.meta, "weight_versions", list, optional=True)
        if not count:
            return ()
        if not spans:
            version = self.meta.get("weight_version")
            return () if version is None else (WeightSpan(version=str(version), start=0, end=count, widened=True),)
        return tuple(self.spans(spans, count))

    def spans(self, given: Sequence[Any], count: int) -> list[WeightSpan]:
        """Return spans that cover `count` ids without gaps."""
        result: list[WeightSpan] = []
        reached = 0
        for entry in given:
            try:
                version, start, end = entry["version"], entry["start"], entry["end"]
                if version is None or {type(start), type(end)} != {int}:
                    raise TypeError
                fits = start == reached and start <= end
            except (TypeError, KeyError):
                self.fail(f"meta_info.weight_versions holds {entry!r}, not a span of version, start and end")
            if not fits:
                self.fail(f"meta_info.weight_versions has a gap or an overlap at output token {reached}: {given!r}")
            # Tokens that were sampled beyond a stop are not in output_ids, but a span may count them.
            if start < count and start < end:
                result.append(WeightSpan(version=str(version), start=start, end=min(end, count)))
            reached = end
        if reached < count:
            self.fail(f"meta_info.weight_versions covers {reached} of {count} output tokens: {given!r}")
        return result


def _are_but_clipped(told: Sequence[int], wanted: Sequence[int], highest: int) -> bool:
    """Whether ids differ only as SGLang's do: of prompts it tells the last id of the vocabulary as 0."""
    return all(theirs == ours or (theirs == 0 and ours == highest) for theirs, ours in zip(told, wanted, strict=True))


def row_bytes(rows: str, count: int) -> int | None:
    """Return the bytes of each of so many rows of int32 in a base64 text, 0 for no rows; None where they do not fit."""
    size, rest = divmod(len(rows), 4)
    size = 3 * size - rows[-2:].count("=")
    if rest or count < 0 or (not count and size):
        return None
    if not count:
        return 0
    width, rest = divmod(size, count)
    return width if width and not rest and not width % 4 else None
