from __future__ import annotations

from typing import Any

import pytest

from strands_sglang.errors import UnsupportedContentError
from strands_sglang.provider.messages import images_of, system_text, to_chat, to_tools

PNG = {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def use(id: str, name: str = "f", /, **input: Any) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": id, "name": name, "input": input}}


def result(id: str, *content: dict[str, Any]) -> dict[str, Any]:
    return {"toolResult": {"toolUseId": id, "status": "success", "content": list(content)}}


def chat(*messages: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    return to_chat(messages, 0, len(messages), **options)


def test_every_text_block_appears() -> None:
    assert chat(user({"text": "one"}, {"text": "two"})) == [{"role": "user", "content": "one\ntwo"}]


def test_a_tool_use_without_text_is_a_call_without_content() -> None:
    (message,) = chat(assistant(use("a", x=1)))

    assert message["content"] == ""
    assert message["tool_calls"] == [{"id": "a", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}}]


def test_results_stand_in_the_order_of_their_calls() -> None:
    ids = [f"functions.f:{n}" for n in range(11)]
    calls = assistant(*(use(id) for id in ids))
    results = user(*(result(id, {"text": id}) for id in sorted(ids)))

    assert [message["tool_call_id"] for message in chat(calls, results)[1:]] == ids


def test_two_calls_of_one_id_both_get_their_result() -> None:
    messages = chat(
        assistant(use("a", "f"), use("a", "g")), user(result("a", {"text": "one"}), result("a", {"text": "two"}))
    )

    assert [(m["name"], m["content"]) for m in messages[1:]] == [("f", "one"), ("g", "two")]


def test_a_result_holds_text_and_json_and_may_be_empty() -> None:
    messages = chat(assistant(use("a"), use("b")), user(result("a", {"text": "x"}, {"json": {"é": 1}}), result("b")))

    assert [message["content"] for message in messages[1:]] == ['x\n{"é": 1}', ""]


def test_text_beside_results_is_a_user_message_after_them() -> None:
    messages = chat(assistant(use("a")), user({"text": "and now?"}, result("a", {"text": "x"})))

    assert [message["role"] for message in messages] == ["assistant", "tool", "user"]


def test_the_result_of_a_failed_attempt_is_its_reason() -> None:
    failed = use("a", "invalid_tool_call", name="f", reason="not JSON", raw="{")
    unknown = result("a", {"text": "Unknown tool: invalid_tool_call"})

    assert chat(assistant(failed), user(unknown))[1]["content"] == "not JSON"


def test_what_a_hook_adds_to_the_result_of_a_failed_attempt_is_read_too() -> None:
    failed = use("a", "invalid_tool_call", name="f", reason="not JSON", raw="{")

    assert chat(assistant(failed), user(result("a", {"text": "Try g."})))[1]["content"] == "not JSON\nTry g."


def test_a_text_document_is_written_out_under_its_name() -> None:
    page = {"document": {"format": "md", "name": 'a "b"', "source": {"bytes": "# é".encode()}, "context": "draft"}}
    written = '<document name="a \\"b\\"" format="md" context="draft">\n# é\n</document>'

    assert chat(user({"text": "Read"}, page))[0]["content"] == f"Read\n{written}"
    assert chat(assistant(use("a")), user(result("a", page)))[1]["content"] == written


def test_cited_text_without_sources_is_text() -> None:
    cited = {"citationsContent": {"content": [{"text": "one"}, {"text": "two"}], "citations": []}}

    assert chat(assistant(cited))[0]["content"] == "one\ntwo"


def test_reasoning_is_kept_apart_from_text() -> None:
    reasoning = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}}

    assert chat(assistant(reasoning, {"text": "x"})) == [
        {"role": "assistant", "content": "x", "reasoning_content": "hm"}
    ]


def test_images_are_parts_and_are_listed_in_order() -> None:
    messages = [user({"text": "look"}, PNG), assistant(use("a")), user(result("a", PNG))]

    assert chat(*messages)[0]["content"][1] == {"type": "image", "image": "data:image/png;base64,iVBORw=="}
    assert images_of(messages, 0, 3) == ("data:image/png;base64,iVBORw==",) * 2


def test_cache_points_leave_no_trace() -> None:
    assert chat(user({"text": "x"}, {"cachePoint": {"type": "default"}})) == [{"role": "user", "content": "x"}]


def test_the_system_prompt_comes_first() -> None:
    assert chat(user({"text": "x"}), system_prompt="S")[0] == {"role": "system", "content": "S"}
    assert system_text("S", [{"text": "a"}, {"cachePoint": {"type": "default"}}, {"text": "b"}]) == "a\nb"
    assert system_text("S", None) == "S"


@pytest.mark.parametrize(
    "message",
    [
        user({"document": {"format": "pdf", "name": "x", "source": {"bytes": b""}}}),
        user({"video": {}}),
        user({}),
        user({"image": {"format": "png", "source": {"location": {"uri": "s3://x"}}}}),
        assistant({"reasoningContent": {"redactedContent": b"x"}}),
        assistant({"toolUse": {"toolUseId": "a", "name": "f", "input": [1]}}),
        user(result("a", {"document": {}})),
        user({"document": {"format": "txt", "name": "x", "source": {"bytes": b"\xff"}}}),
        user({"document": {"format": "txt", "name": "x", "source": {"location": {"uri": "s3://x"}}}}),
        user({"image": {"format": "png", "source": {"bytes": "aGk="}}}),
        user({"text": "x", "image": {"format": "png", "source": {"bytes": b""}}}),
        user(result("a", {"text": "x", "json": {}})),
        user(result("a", {"json": {1, 2}})),
        assistant({"citationsContent": {"content": [{"text": "x"}], "citations": [{"title": "A book"}]}}),
        {"role": "system", "content": [{"text": "x"}]},
    ],
)
def test_what_cannot_be_expressed_is_refused_by_index(message: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedContentError, match="message 1") as raised:
        chat(user({"text": "x"}), message)

    assert raised.value.message_index == 1


def test_a_tool_of_the_reserved_name_is_refused() -> None:
    with pytest.raises(UnsupportedContentError, match="reserved"):
        to_tools([{"name": "invalid_tool_call", "description": "", "inputSchema": {"json": {}}}])
