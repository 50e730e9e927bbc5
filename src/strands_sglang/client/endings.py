"""The errors by which a call ends that are not those of one attempt."""

from __future__ import annotations

from collections.abc import Sequence

from strands_sglang.errors import SGLangAbortedError, SGLangClientError, SGLangTimeoutError
from strands_sglang.wire import GenerateReply

_TIME_HINT = "raise timeout= of SGLangClient, or lower max_new_tokens or the number of concurrent requests"


def aborted(
    cause: GenerateReply | SGLangClientError | None, partial: GenerateReply | None, when: str, attempts: int
) -> SGLangAbortedError:
    """Return the error of a call that ends with an abort.

    Args:
        cause: What the last attempt came to; None where none was on its way.
        partial: What was sampled.
        when: When it was, as a part of the sentence.
        attempts: How many requests were sent.
    """
    if isinstance(cause, GenerateReply):
        said = cause.finish_reason.message
    else:
        said = "no request was on its way just then" if cause is None else str(cause)
    count = len(partial.output_ids) if partial is not None else 0
    return SGLangAbortedError(
        f"the generation was aborted{when} with {count} tokens sampled: {said}",
        reply=partial,
        url=None if cause is None else cause.url,
        rid=None if cause is None else cause.rid,
        attempts=attempts,
    )


def out_of_time(
    what: str, seconds: float | None, failures: Sequence[SGLangClientError], *, url: str, rid: str | None, attempts: int
) -> SGLangTimeoutError:
    """Return the error of a call whose deadline has passed.

    Args:
        what: What has not happened, as the begin of the sentence.
        seconds: The time that the call had.
        failures: What went wrong before.
        url: What was asked.
        rid: The request id of the attempt that it ended.
        attempts: How many requests were sent.
    """
    last = f"; the last failure before: {failures[-1]}" if failures else ""
    return SGLangTimeoutError(
        f"{what} within the deadline of {seconds} s{last}", url=url, rid=rid, attempts=attempts, hint=_TIME_HINT
    )
