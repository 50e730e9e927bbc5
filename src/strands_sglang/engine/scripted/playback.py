"""Playing one scripted turn: its ids over time, and the answer as it stands after each.

Owns the timing, the abort of a turn that is being played, and the making of its `Reply`.
Invariant: an answer after n ids holds the first n ids and log-probabilities of the turn, whatever n is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

from strands_sglang.engine.reply import ABORTED, ABORTED_IN_QUEUE, Logprobs, Reply, Triple
from strands_sglang.engine.scripted.script import Turn, made_up_logprob
from strands_sglang.errors import SGLangConnectionError

Progress = tuple[int, dict[str, Any] | None]
"""How many ids there are, and the finish reason (None while the turn runs)."""


class Playback:
    """One turn as it is played to one request."""

    def __init__(
        self,
        turn: Turn,
        ids: Sequence[int],
        text_of: Callable[[int], str],
        *,
        rid: str,
        body: dict[str, Any],
        version: str,
    ) -> None:
        """Prepare the turn for the request `body`; `ids` and the text after so many of them are the turn's."""
        self.turn = turn
        self.ids = list(ids)
        self.text_of = text_of
        self.rid = rid
        self.body = body
        self.version = turn.weight_version or version
        self.abort = asyncio.Event()
        self.started = time.perf_counter()

    async def progress(self) -> AsyncGenerator[Progress, None]:
        """Yield after each id, and once more with the finish reason.

        Raises:
            SGLangConnectionError: The turn says that the connection breaks here.
        """
        if await self._aborted_within(self.turn.delay):
            yield 0, ABORTED_IN_QUEUE
            return
        for count in range(1, len(self.ids)):
            if await self._aborted_within(self.turn.token_delay):
                yield count - 1, ABORTED
                return
            yield count, None
            self._break_after(count)
        yield len(self.ids), self._finish()

    async def _aborted_within(self, seconds: float) -> bool:
        if seconds <= 0:
            return self.abort.is_set()
        try:
            await asyncio.wait_for(self.abort.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def _break_after(self, count: int) -> None:
        if self.turn.drop_after is not None and count >= self.turn.drop_after:
            raise SGLangConnectionError("the script dropped the connection inside a stream")

    def _finish(self) -> dict[str, Any] | None:
        finish, last = self.turn.finish, self.ids[-1] if self.ids else None
        if finish is None or not isinstance(finish, str):
            return None if finish is None else dict(finish)
        if finish == "stop":
            return {"type": "stop", "matched": last if self.turn.matched is None else self.turn.matched}
        return {"type": "length", "length": len(self.ids)} if finish == "length" else dict(ABORTED)

    def answer(self, count: int, finish: dict[str, Any] | None, *, last: bool) -> dict[str, Any]:
        """Return the reply's body after `count` ids."""
        reply = Reply(
            rid=self.rid,
            text=self.text_of(count),
            output_ids=self.ids[:count],
            finish=finish,
            prompt_tokens=len(self.prompt),
            weight_version=self.version,
            weight_versions=self._spans(count),
            logprobs=self._logprobs(count),
            prompt_token_ids=self._prompt_read(),
            started=self.started,
            queued=finish is ABORTED_IN_QUEUE,
        )
        return self._with_faults(reply.body()) if last else reply.body()

    @property
    def prompt(self) -> list[int]:
        """The ids that were sent."""
        ids = self.body.get("input_ids")
        return ids if isinstance(ids, list) else []

    def _prompt_read(self) -> Sequence[int] | None:
        if not self.body.get("return_prompt_token_ids"):
            return None
        return self.prompt if self.turn.prompt_token_ids is None else self.turn.prompt_token_ids

    def _spans(self, count: int) -> list[dict[str, Any]]:
        if self.turn.weight_versions is not None:
            return [dict(span) for span in self.turn.weight_versions]
        return [{"version": self.version, "start": 0, "end": count}]

    def _logprobs(self, count: int) -> Logprobs | None:
        if not self.body.get("return_logprob"):
            return None
        return Logprobs(input=self._input_logprobs(), output=self._output_logprobs(count))

    def _output_logprobs(self, count: int) -> list[Triple]:
        given = self.turn.logprobs
        if given is None:
            return [(made_up_logprob(at, token), token, None) for at, token in enumerate(self.ids[:count])]
        end = len(given) if count == len(self.ids) else count
        return [(value, self.ids[at] if at < len(self.ids) else 0, None) for at, value in enumerate(given[:end])]

    def _input_logprobs(self) -> list[Triple]:
        start = self.body.get("logprob_start_len", -1)
        if not isinstance(start, int) or start < 0:
            return []
        asked = list(enumerate(self.prompt))[start:]
        return [(made_up_logprob(at, token) if at > start else None, token, None) for at, token in asked]

    def _with_faults(self, body: dict[str, Any]) -> dict[str, Any]:
        meta = body["meta_info"]
        if self.turn.routed_experts is not None:
            meta["routed_experts"] = self.turn.routed_experts
        meta.update(self.turn.meta)
        for key in self.turn.without:
            meta.pop(key, None)
            body.pop(key, None)
        return body
