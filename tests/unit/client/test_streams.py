"""Streams of every release become the body that one whole reply would have been."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strands_sglang.client.streams import EventReader, StreamAssembly, StreamDelta
from strands_sglang.errors import (
    SGLangBadRequestError,
    SGLangContextLengthError,
    SGLangDecodingError,
    SGLangIncompleteAnswerError,
    SGLangServerError,
    SGLangThrottledError,
)
from strands_sglang.wire import FinishType, GenerateReply

from .bodies import asked, reply_body

IDS = [294, 4, 277, 664, 4]
WORDS = ["str", "", "ing", " ov", "er"]
REQUEST = asked(sampling_params={"max_new_tokens": 9})
DONE = b"[DONE]"

# Which of text, ids and log-probabilities are deltas: the releases there are, by the table of the API notes.
RELEASES = {
    "0.5.12, default": set(),
    "0.5.12, incremental": {"text", "ids", "logprobs"},
    "0.5.10, incremental": {"text", "ids"},
    "0.5.7, incremental": {"ids"},
    "0.5.1": {"ids"},
}


def event(count: int, before: int, deltas: Iterable[str], *, last: bool, logprobs: bool = True) -> bytes:
    """The event that says `count` tokens, after one that said `before`."""
    text, ids, values = (before if name in deltas else 0 for name in ("text", "ids", "logprobs"))
    body = reply_body(
        IDS[:count],
        text="".join(WORDS[text:count]),
        finish={"type": "length", "length": count} if last else None,
    )
    body["output_ids"] = IDS[ids:count]
    meta = body["meta_info"]
    meta["output_token_logprobs"] = meta["output_token_logprobs"][values:]
    if not last:
        meta["finish_reason"] = None
    if not logprobs:
        del meta["output_token_logprobs"]
    return json.dumps(body).encode()


def stream(counts: list[int], deltas: Iterable[str], **options: Any) -> list[bytes]:
    """The events of a stream that says these totals."""
    pairs = zip([0, *counts], counts, strict=False)
    return [event(count, before, deltas, last=count == len(IDS), **options) for before, count in pairs]


def assemble(payloads: Iterable[bytes], request: Any = REQUEST) -> tuple[StreamAssembly, list[StreamDelta]]:
    assembly = StreamAssembly(request, rid="r", url="http://s/generate")
    deltas = [assembly.feed(payload) for payload in payloads]
    return assembly, [delta for delta in deltas if delta is not None]


COUNTS = st.sets(st.integers(1, len(IDS) - 1)).map(lambda some: [*sorted(some), len(IDS)])


@pytest.mark.parametrize("release", RELEASES)
@given(counts=COUNTS)
def test_the_reply_equals_the_one_that_was_not_streamed(release: str, counts: list[int]) -> None:
    assembly, deltas = assemble([*stream(counts, RELEASES[release]), DONE])

    whole = GenerateReply.from_body(
        json.loads(event(len(IDS), 0, (), last=True)), REQUEST, rid="r", url="http://s/generate"
    )
    reply = assembly.reply()
    assert whole == reply
    assert whole.raw == reply.raw
    assert [token for delta in deltas for token in delta.output_ids] == IDS
    assert whole.output_logprobs == [value for delta in deltas for value in delta.output_logprobs or ()]
    assert "".join(WORDS) == "".join(delta.text for delta in deltas)


@pytest.mark.parametrize("release", ["0.5.12, default", "0.5.12, incremental"])
@given(counts=COUNTS)
def test_it_also_holds_without_logprobs(release: str, counts: list[int]) -> None:
    request = asked(return_logprob=False)

    assembly, deltas = assemble([*stream(counts, RELEASES[release], logprobs=False), DONE], request)
    assert assembly.reply().output_ids == IDS
    assert "".join(WORDS) == assembly.reply().text == "".join(delta.text for delta in deltas)
    assert all(delta.output_logprobs is None for delta in deltas)


def retold(payloads: list[bytes], counts: list[int], words: list[str], release: str) -> list[bytes]:
    """The same events of a server that has sampled other words, as that release writes them."""
    told = []
    for payload, before, count in zip(payloads, [0, *counts], counts, strict=False):
        body = json.loads(payload)
        body["text"] = "".join(words[before if "text" in RELEASES[release] else 0 : count])
        if release.startswith(("0.5.10", "0.5.12")):
            body["meta_info"]["reasoning_tokens"] = 0
        told.append(json.dumps(body).encode())
    return told


REPEATS = st.lists(st.sampled_from(["", "1", "1", "11", "x", "1x"]), min_size=5, max_size=5)


@pytest.mark.parametrize("release", RELEASES)
@given(counts=COUNTS, words=REPEATS)
def test_text_that_repeats_itself_is_kept(release: str, counts: list[int], words: list[str]) -> None:
    payloads = retold(stream(counts, RELEASES[release]), counts, words, release)

    assembly, deltas = assemble([*payloads, DONE])
    assert "".join(words) == assembly.reply().text == "".join(delta.text for delta in deltas)


@pytest.mark.parametrize("release", RELEASES)
@given(counts=COUNTS, words=REPEATS)
def test_without_logprobs_text_is_right_or_not_there(release: str, counts: list[int], words: list[str]) -> None:
    payloads = retold(stream(counts, RELEASES[release], logprobs=False), counts, words, release)

    assembly, deltas = assemble([*payloads, DONE], asked(return_logprob=False))
    reply = assembly.reply()
    told = "".join(delta.text for delta in deltas)
    assert reply.text == "".join(words) if release.startswith("0.5.1") and release != "0.5.1" else True
    if reply.text is None:
        assert "text" not in reply.raw
        assert "".join(words).startswith(told)
    else:
        assert reply.text == "".join(words) == told


@given(counts=COUNTS, words=REPEATS)
def test_text_of_a_server_that_tells_no_release_is_right_or_not_there(counts: list[int], words: list[str]) -> None:
    told = retold(stream(counts, RELEASES["0.5.12, incremental"], logprobs=False), counts, words, "0.5.12, incremental")
    bodies = [json.loads(payload) for payload in told]
    for body in bodies:
        del body["meta_info"]["reasoning_tokens"]

    assembly, _ = assemble([*(json.dumps(body).encode() for body in bodies), DONE], asked(return_logprob=False))
    assert assembly.reply().text in (None, "".join(words))


@pytest.mark.parametrize("has_logprobs", [True, False])
def test_a_text_that_does_not_go_on_from_the_last_shows_that_each_is_new(has_logprobs: bool) -> None:
    bodies = [reply_body([5], text="1"), reply_body([5, 6], text="1"), reply_body([5, 6, 7], text="x")]
    for at, body in enumerate(bodies):
        body["output_ids"] = body["output_ids"][at:]
        if not has_logprobs:
            del body["meta_info"]["output_token_logprobs"]

    payloads = [json.dumps(body).encode() for body in bodies]
    assembly, deltas = assemble([*payloads, DONE], asked(return_logprob=has_logprobs))
    assert "11x" == assembly.reply().text == "".join(delta.text for delta in deltas)


def test_ids_that_an_old_release_lost_are_taken_from_its_cumulative_logprobs() -> None:
    first, lost, last = stream([1, 3, 5], {"ids"})
    assert lost

    assembly, deltas = assemble([first, last, DONE])
    assert assembly.reply().output_ids == IDS
    assert [IDS[:1], IDS[1:]] == [delta.output_ids for delta in deltas]


def test_ids_that_are_lost_for_good_are_an_error() -> None:
    first, _, last = stream([1, 3, 5], {"ids", "logprobs", "text"})

    with pytest.raises(SGLangDecodingError, match="tokens were lost: 1 came before, 2 with"):
        assemble([first, last])


def test_an_abort_that_repeats_the_last_token_adds_none() -> None:
    events = stream([1, 3], {"text", "ids", "logprobs"})
    body = json.loads(events[-1])
    body["text"], body["output_ids"] = "".join(WORDS[:3]), IDS[2:3]
    body["meta_info"]["output_token_logprobs"] = []
    body["meta_info"]["finish_reason"] = {"type": "abort", "message": "Abort in waiting queue"}

    assembly, deltas = assemble([*events, json.dumps(body).encode(), DONE])
    reply = assembly.reply()
    assert FinishType.ABORT is reply.finish_reason.type
    assert IDS[:3] == reply.output_ids
    assert "string" == reply.text == "".join(delta.text for delta in deltas)
    assert reply.output_logprobs is not None
    assert len(reply.output_logprobs) == 3


def test_an_abort_in_the_queue_that_says_no_more_keeps_what_was_sampled() -> None:
    events = stream([1, 3], ())
    last = json.loads(events[-1])
    last["meta_info"] = {
        "completion_tokens": 3,
        "finish_reason": {"type": "abort", "message": "Abort in waiting queue"},
    }

    assembly, _ = assemble([*events, json.dumps(last).encode(), DONE])
    reply = assembly.reply()
    assert IDS[:3] == reply.output_ids
    assert reply.output_logprobs is not None
    assert len(reply.output_logprobs) == 3


def test_an_event_that_changes_what_was_sent_is_an_error() -> None:
    first, second = stream([2, 5], ())
    changed = json.loads(second)
    changed["output_ids"][0] = 1

    with pytest.raises(SGLangDecodingError, match="changes ids"):
        assemble([first, json.dumps(changed).encode()])


# --- how a stream ends --------------------------------------------------------------------------------------


def test_a_stream_without_done_broke_off() -> None:
    assembly, _ = assemble(stream([2, 5], ()))

    with pytest.raises(SGLangIncompleteAnswerError, match="after 5 tokens"):
        assembly.reply()


def test_a_stream_without_a_finish_reason_is_no_reply() -> None:
    assembly, _ = assemble([*stream([2], ()), DONE])

    with pytest.raises(SGLangDecodingError, match="has not ended"):
        assembly.reply()


def test_a_stream_without_any_event_is_no_reply() -> None:
    assembly, _ = assemble([DONE])

    with pytest.raises(SGLangDecodingError, match="without any event"):
        assembly.reply()


@pytest.mark.parametrize("deltas", [(), {"text", "ids", "logprobs"}])
def test_what_a_broken_stream_brought_is_an_aborted_reply(deltas: set[str]) -> None:
    assembly, _ = assemble(stream([1, 3], deltas))

    partial = assembly.partial()
    assert partial is not None
    assert FinishType.ABORT is partial.finish_reason.type
    assert IDS[:3] == partial.output_ids
    assert partial.output_logprobs is not None


def test_a_stream_that_brought_nothing_has_no_part() -> None:
    assembly, _ = assemble([])

    assert assembly.partial() is None


# --- errors inside a stream ---------------------------------------------------------------------------------

TOO_LONG = "The input (5000 tokens) is longer than the model's context length (4096 tokens)."


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": TOO_LONG, "type": "invalid_request_error", "code": 400}, SGLangContextLengthError),
        ({"message": TOO_LONG}, SGLangContextLengthError),
        ("bad", SGLangBadRequestError),
        ({"message": "full", "code": 503}, SGLangThrottledError),
        ({"message": "full", "code": "503"}, SGLangThrottledError),
        ({"message": "none", "code": "no_available_workers"}, SGLangThrottledError),
        ({"message": "none", "code": "some_name", "type": "Service Unavailable"}, SGLangThrottledError),
        ({"message": "none", "code": "some_name", "type": "Internal Server Error"}, SGLangServerError),
        ({"message": "bad", "code": "some_name", "type": "invalid_request_error"}, SGLangBadRequestError),
        ({"message": "bad", "code": "²²²"}, SGLangBadRequestError),
        ({"message": "bad", "code": True}, SGLangBadRequestError),
        ({"message": "bad", "code": []}, SGLangBadRequestError),
    ],
)
def test_an_error_inside_a_stream_is_the_error_it_would_be_outside(error: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        assemble([json.dumps({"error": error}).encode()])


def test_a_refusal_of_the_scheduler_is_its_error_although_its_counts_do_not_agree() -> None:
    refused = {"type": "abort", "message": TOO_LONG, "status_code": 400, "err_type": "BadRequestError"}
    body = reply_body([0], finish=refused)
    body["meta_info"]["output_token_logprobs"] = []

    with pytest.raises(SGLangContextLengthError):
        assemble([json.dumps(body).encode()])


@pytest.mark.parametrize(
    "payload", [b"{", b"[]", b"{}", b'{"meta_info": {}}', b'{"meta_info": {"completion_tokens": "3"}}']
)
def test_an_event_of_another_shape_is_an_error(payload: bytes) -> None:
    with pytest.raises(SGLangDecodingError):
        assemble([payload])


ONE_FIELD = [
    ("text", 5),
    ("text", ["a"]),
    ("output_ids", ["a", "b"]),
    ("output_ids", [1.0, True]),
    ("output_ids", [[1], {}]),
    ("meta_info", []),
]
ONE_FIELD_OF_META = [
    ("output_token_logprobs", [None, None]),
    ("output_token_logprobs", [[], []]),
    ("output_token_logprobs", [{}, {}]),
    ("output_token_logprobs", [[-0.5, 7], ["a", 8]]),
    ("output_token_logprobs", ["ab", "cd"]),
    ("completion_tokens", 2.0),
    ("completion_tokens", True),
    ("completion_tokens", -1),
    ("completion_tokens", None),
]


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize(
    ("key", "value", "in_meta"), [(*f, False) for f in ONE_FIELD] + [(*f, True) for f in ONE_FIELD_OF_META]
)
def test_an_event_with_a_field_of_another_shape_is_an_error(
    key: str, value: Any, in_meta: bool, ids: bool, place: int
) -> None:
    body = reply_body([7, 8])
    if not ids:  # they are taken from the log-probabilities then
        del body["output_ids"]
    (body["meta_info"] if in_meta else body)[key] = value
    first = [json.dumps(reply_body([7], finish={"type": "length", "length": 1})).encode()][:place]

    with pytest.raises(SGLangDecodingError) as raised:
        assemble([*first, json.dumps(body).encode()])
    assert (raised.value.url, raised.value.rid) == ("http://s/generate", "r")


def test_a_list_that_was_not_asked_for_may_be_empty_or_null() -> None:
    body = reply_body([7, 8], output_top_logprobs=[], output_token_ids_logprobs=None)

    assembly, _ = assemble([json.dumps(body).encode(), DONE])
    assert assembly.reply().output_ids == [7, 8]
    assert assembly.reply().raw == body


# --- bytes --------------------------------------------------------------------------------------------------


@given(st.data(), st.sampled_from(["\n\n", "\r\n\r\n", "\n"]))
def test_events_are_found_wherever_the_bytes_are_cut(data: st.DataObject, ends: str) -> None:
    payloads = ["{}", '{"text":"a\\n\\ndata: b"}', "[DONE]"]
    raw = "".join(f": comment{ends}event: x\ndata: {payload}{ends}" for payload in payloads).encode()
    cuts = sorted(data.draw(st.sets(st.integers(0, len(raw)), max_size=6)))
    reader = EventReader()

    found = [payload for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True) for payload in reader.feed(raw[a:b])]
    assert [payload.encode() for payload in payloads] == found
