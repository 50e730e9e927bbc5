"""One small case for every known trap of chat templates; `witnesses.json` says why each is one.

A case gives the conversation (`context`, then a turn `sampled` as a text or as separately encoded pieces, which the
host holds as `message`, then `new`) and the text of the `bridge` that must come out, or the reason why it is `refused`.
The bridge must also be the end of the whole rendering; where history loses the reasoning that it closes, `shared` is.
"""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from strands_sglang.errors import TemplateNotExactError
from strands_sglang.tokenization import ChatTokenizer, SampledTurn
from tests.real_tokenizers import chat_template, real_tokenizer
from tests.unit.tokenization.conversations import TOOLS, byte_tokenizer

WITNESSES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("witnesses.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", WITNESSES, ids=[case["trap"] for case in WITNESSES])
def test_witness(case: dict[str, Any]) -> None:
    chat = _chat(case)
    tools = TOOLS if case.get("tools") else []
    pieces = [case["sampled"]] if isinstance(case["sampled"], str) else case["sampled"]
    turn = SampledTurn(
        ids=[i for piece in pieces for i in chat._vocabulary.encode(piece)],
        message=case["message"],
        prompt_ids=chat.first(case["context"], tools).ids,
    )
    if "refused" in case:
        with pytest.raises(TemplateNotExactError) as caught:
            chat.bridge(case["context"], turn, case["new"], tools)
        assert case["refused"] in str(caught.value), case["why"]
        return

    bridge = chat.bridge(case["context"], turn, case["new"], tools)

    expected = case["bridge"]
    assert expected == chat.decode(bridge.ids), _difference(chat, chat._vocabulary.encode(expected), bridge.ids, case)
    assert case.get("trimmed", 0) == bridge.trimmed, case["why"]
    assert chat._template.render([*case["context"], case["message"], *case["new"]], tools).endswith(
        case.get("shared", expected)
    )
    if "tokens" in case:
        assert case["tokens"] == Counter(chat.decode([i]) for i in bridge.ids if chat.decode([i]) in case["tokens"])


def _chat(case: dict[str, Any]) -> ChatTokenizer:
    if "model" in case:
        return ChatTokenizer(real_tokenizer(case["model"]), chat_template_kwargs=case.get("arguments"))
    return ChatTokenizer(
        byte_tokenizer(*case["control"]),
        chat_template=chat_template(case["template"]),
        chat_template_kwargs=case.get("arguments"),
    )


def _difference(chat: ChatTokenizer, expected: Sequence[int], found: Sequence[int], case: dict[str, Any]) -> str:
    """Return why the case is a witness, the first token that differs, and a diff of the texts."""
    at = next((i for i, (a, b) in enumerate(zip(expected, found, strict=False)) if a != b), len(expected))
    lines, found_lines = (chat.decode(ids).splitlines(keepends=True) for ids in (expected, found))
    diff = "\n".join(map(repr, difflib.ndiff(lines, found_lines)))
    tokens = [chat.decode(ids[at : at + 1]) for ids in (expected, found)]
    return f"{case['why']}\ntoken {at}: {tokens[1]!r} instead of {tokens[0]!r}\n{diff}"
