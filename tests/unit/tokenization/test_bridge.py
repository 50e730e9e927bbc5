"""The next prompt is the recorded ids plus what the template puts after them."""

from __future__ import annotations

import pytest

from strands_sglang.tokenization import ChatTokenizer, SampledTurn
from tests.real_tokenizers import real_tokenizer

SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "Sum of 1 and 2?"}
CALL = {"id": "call00001", "type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": 2}}}
RESULT = {"role": "tool", "tool_call_id": "call00001", "name": "add", "content": "3"}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Add two numbers.",
            "parameters": {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}},
        },
    }
]


@pytest.mark.parametrize("name", ["qwen2.5", "qwen3-instruct-2507"])
def test_bridge_after_a_tool_call_equals_the_whole_rendering(name: str) -> None:
    chat = ChatTokenizer(real_tokenizer(name))
    turn = {"role": "assistant", "content": "", "tool_calls": [CALL]}
    prompt = chat.first([SYSTEM, USER], TOOLS).ids
    whole = chat.first([SYSTEM, USER, turn, RESULT], TOOLS).ids
    end = whole.index(real_tokenizer(name).eos_token_id, len(prompt)) + 1
    sampled = whole[len(prompt) : end]

    bridge = chat.bridge([SYSTEM, USER], SampledTurn(ids=sampled, message=turn, prompt_ids=prompt), [RESULT], TOOLS)

    assert whole == prompt + sampled + bridge.ids
    assert bridge.trimmed == 0
