"""Calls that the models' own templates render are read back as the same calls.

Where a value holds a format's own tags, text alone cannot always tell: then the call may come back as an error, but
never as another call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.utils.chat_template_utils import render_jinja_template

from strands_sglang.tool_parsers import get_tool_parser
from tests.real_tokenizers import chat_template, tokenizer_dir
from tests.unit.tool_parsers.formats import FORMATS, Call

QUESTION = "Do it."
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "do_it",
        "parameters": {
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "count": {"type": "integer"},
                "ratio": {"type": "number"},
                "flag": {"type": "boolean"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "thing": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string"},
                        "sizes": {"type": "array", "items": {"type": "integer"}},
                        "inner": {"type": "object", "properties": {"on": {"type": "boolean"}}},
                    },
                },
            },
        },
    },
}


@dataclass(frozen=True, kw_only=True)
class Source:
    """A template and what is particular about it.

    Attributes:
        format: The format it renders.
        tokenizer: The tokenizer it comes with, or "".
        template: The template's name where it comes alone.
        begins: The text before the answer.
        ends: What ends the answer, as a regular expression.
        json_arguments: Whether it wants the arguments as JSON text.
        one: Whether an answer has one call.
        fails: What it cannot express or cannot be told: a pattern in any string of a call.
        content: Whether it renders content before calls.
    """

    format: str
    tokenizer: str = ""
    template: str = ""
    begins: str = "<|im_start|>assistant\n"
    ends: str = r"<\|im_end\|>\n?"
    json_arguments: bool = False
    one: bool = False
    fails: str = r"(?!)"
    content: bool = True

    def render(self, calls: Sequence[Call]) -> str:
        """Return the answer that makes these calls, as the template writes it."""
        tool_calls = [
            {
                "id": f"functions.{name}:{index}" if self.format == "kimi_k2" else f"abcdef{index:03d}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(given) if self.json_arguments else given},
            }
            for index, (name, given) in enumerate(calls)
        ]
        messages: list[dict[str, Any]] = [
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": None if not self.content else "", "tool_calls": tool_calls},
        ]
        template = chat_template(self.template) if self.template else tokenizer_template(self.tokenizer)
        render: Any = render_jinja_template
        (text,), _ = render(conversations=[messages], chat_template=template, bos_token="", eos_token="</s>")
        begins = text.index(self.begins, text.index(QUESTION)) + len(self.begins)
        return re.sub(f"(?:{self.ends})\\Z", "", text[begins:])


def tokenizer_template(name: str) -> str:
    """Return the template that comes with a tokenizer."""
    return (tokenizer_dir(name) / "chat_template.jinja").read_text()


SOURCES = (
    Source(format="hermes", tokenizer="qwen2.5"),
    Source(format="hermes", tokenizer="qwen3"),
    Source(format="hermes", tokenizer="hermes-4-14b"),
    Source(
        format="hermes",
        template="ibm-granite-granite-4.1",
        begins="<|start_of_role|>assistant<|end_of_role|>",
        ends=r"<\|end_of_text\|>\n",
    ),
    Source(format="qwen_xml", tokenizer="qwen3-coder", begins="<|im_start|>assistant"),
    Source(format="qwen_xml", tokenizer="qwen3.5"),
    Source(format="qwen_xml", tokenizer="qwen3.6"),
    Source(format="qwen_xml", template="NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"),
    Source(format="qwen_xml", template="stepfun-ai-Step-3.7-Flash"),
    Source(format="seed_oss", template="ByteDance-Seed-OSS", begins="<seed:bos>assistant", ends="<seed:eos>"),
    Source(format="mimo", template="XiaomiMiMo-MiMo-V2.5"),
    Source(format="glm", tokenizer="glm-4.6", begins="<|assistant|>", ends=""),
    Source(format="glm", tokenizer="glm-5", begins="<|assistant|>", ends=""),
    Source(format="glm", template="poolside-Laguna-XS.2", begins="<assistant>\n", ends="</assistant>\n"),
    Source(
        format="longcat_v2",
        template="meituan-longcat-LongCat-2.0",
        begins="<longcat_assistant>",
        ends="</longcat_s>",
    ),
    Source(
        format="longcat",
        template="meituan-longcat-LongCat-Flash-Chat",
        begins=" ASSISTANT:",
        ends="</longcat_s>",
    ),
    Source(format="kimi_k2", template="moonshotai-Kimi-K2-Instruct-0905", begins="assistant<|im_middle|>"),
    Source(format="kimi_k2", template="moonshotai-Kimi-K2.5", begins="assistant<|im_middle|>"),
    Source(
        format="deepseek_v3",
        tokenizer="deepseek-r1",
        json_arguments=True,
        content=False,
        begins="<｜Assistant｜>",
        ends="<｜end▁of▁sentence｜>",
    ),
    Source(
        format="deepseek_v31",
        tokenizer="deepseek-v3.1",
        json_arguments=True,
        begins="<｜Assistant｜>",
        ends="<｜end▁of▁sentence｜>",
    ),
    Source(
        format="deepseek_v32",
        tokenizer="deepseek-v3.2",
        begins="<｜Assistant｜>",
        ends="<｜end▁of▁sentence｜>",
    ),
    Source(
        format="deepseek_v4",
        tokenizer="deepseek-v4",
        begins="<｜Assistant｜>",
        ends="<｜end▁of▁sentence｜>",
    ),
    Source(format="minimax_m2", tokenizer="minimax-m2", begins="]~b]ai\n", ends=r"\[e~\[\n"),
    Source(format="minimax_m3", tokenizer="minimax-m3", begins="]~b]ai\n", ends=r"\[e~\[\n"),
    Source(
        format="hy_v3",
        template="tencent-Hy3",
        begins="<｜hy_Assistant:opensource｜>",
        ends="<｜hy_eos:opensource｜>",
    ),
    Source(format="minicpm5", template="openbmb-MiniCPM5-1B", fails=r"\]\]>"),
    Source(
        format="functiongemma",
        template="unsloth-functiongemma-270m-it",
        begins="<start_of_turn>model\n",
        ends="<start_function_response>",
        fails="<escape>",
    ),
    Source(
        format="mistral_v3", template="mistralai-Mistral-7B-Instruct-v0.3", begins="[/INST]", ends=r"</s>|<\|im_end\|>"
    ),
    Source(
        format="mistral_v11",
        template="mistralai-Mistral-Small-4-119B-2603",
        begins="[/INST]",
        ends=r"</s>|<\|im_end\|>",
    ),
    Source(
        format="hunyuan_a13b",
        template="ai21labs-Jamba-tiny-dev",
        begins="<|bom|><|assistant|> ",
        ends=r"<\|eom\|>",
    ),
    Source(format="nemotron_v2", template="NVIDIA-Nemotron-Nano-v2", begins="Assistant\n", ends=r"<SPECIAL_12>\n+"),
    Source(format="internlm2", template="internlm-Intern-S1-mini"),
    Source(
        format="cohere",
        template="CohereLabs-command-a-plus-05-2026-w4a4",
        begins="<|CHATBOT_TOKEN|>",
        ends=r"<\|END_OF_TURN_TOKEN\|>",
    ),
    Source(
        format="apertus",
        template="swiss-ai-Apertus-8B-Instruct-2509",
        begins="<|assistant_start|>",
        ends=r"<\|assistant_end\|>",
        json_arguments=True,
    ),
    Source(
        format="gigachat3",
        template="GigaChat3-10B-A1.8B",
        begins="assistant<|role_sep|>\n",
        ends=r"<\|message_sep\|>\n\n",
        one=True,
    ),
    # The template quotes strings with apostrophes and escapes nothing.
    Source(format="lfm2", template="LFM2.5-8B-A1B", fails=r"['\\]"),
    Source(format="olmo3", template="allenai-Olmo-3-7B-Instruct", ends="</s>"),
    Source(
        format="llama3_json",
        template="meta-llama-Llama-3.1-8B-Instruct",
        begins="<|start_header_id|>assistant<|end_header_id|>\n\n",
        ends=r"<\|eot_id\|>",
        one=True,
    ),
    Source(
        format="xlam",
        template="Salesforce-Llama-xLAM-2-8b-fc-r",
        begins="<|start_header_id|>assistant<|end_header_id|>\n\n",
        ends=r"<\|eot_id\|>",
    ),
    Source(
        format="gpt_oss",
        template="openai-gpt-oss-120b",
        begins="<|start|>assistant",
        ends=r"<\|call\|>",
        one=True,
    ),
    Source(
        format="gemma4",
        template="google-gemma-4-E4B-it",
        begins="<|turn>model\n",
        ends=r"(<\|tool_response>|<turn\|>\n)?",
        fails=r'<\|"\|>',
    ),
)
every_source = pytest.mark.parametrize("source", SOURCES, ids=lambda s: f"{s.format}-{s.tokenizer or s.template}")
TRICKY = (
    "",
    " ",
    "\n",
    "007",
    "true",
    "null",
    "None",
    " x ",
    "1e3",
    "a\n\n  b",
    'it\'s "q" \\n',
    "日本 é",
    "{}",
    "<b>&amp;</b>",
)


def values(texts: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, Any]]:
    """Arguments of the tool, whose strings are these."""
    integers = st.integers(-(10**18), 10**18)
    thing = {"name": texts, "sizes": st.lists(integers, max_size=2)}
    inner = {"inner": st.fixed_dictionaries({}, optional={"on": st.booleans()})}
    given = {
        "text": texts,
        "count": integers,
        "ratio": st.floats(allow_nan=False, allow_infinity=False),
        "flag": st.booleans(),
        "tags": st.lists(texts, max_size=2),
        "thing": st.fixed_dictionaries({}, optional={**thing, **inner}),
    }
    return st.fixed_dictionaries({}, optional=given)


def calls_of(source: Source, texts: st.SearchStrategy[str]) -> st.SearchStrategy[list[Call]]:
    """Calls that this template can express."""
    sayable = texts.filter(lambda text: not re.search(source.fails, text))
    return st.lists(st.tuples(st.just("do_it"), values(sayable)), min_size=1, max_size=1 if source.one else 2)


def same(left: Sequence[Call], right: Sequence[Call]) -> bool:
    """Whether calls are the same, types and the order of keys aside."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def strings_in(value: Any) -> Iterator[str]:
    """Return every string within a value."""
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ():
        yield from strings_in(inner)


@every_source
@settings(max_examples=8, deadline=None, derandomize=True)
@given(data=st.data())
def test_calls_come_back_from_the_template(source: Source, data: st.DataObject) -> None:
    texts = st.one_of(st.sampled_from(TRICKY), st.text(max_size=8))
    calls = data.draw(calls_of(source, texts))
    text = source.render(calls)

    turn = get_tool_parser(source.format).parse_turn(text, tools=[TOOL])

    made = [(call.name, call.input) for call in turn.calls if not call.is_error]
    assert same(made, calls), (text, [call.reason for call in turn.calls])
    assert turn.content == ""


@every_source
@settings(max_examples=8, deadline=None, derandomize=True)
@given(data=st.data())
def test_calls_with_tags_in_their_strings_come_back_or_are_errors(source: Source, data: st.DataObject) -> None:
    form = next(form for form in FORMATS if form.name == source.format)
    marks = st.sampled_from([*form.marks, *(form.think or ()), "x", "\n", " "])
    calls = data.draw(calls_of(source, st.lists(marks, max_size=3).map("".join)))
    text = source.render(calls)

    turn = get_tool_parser(source.format).parse_turn(text, tools=[TOOL])

    made = [(call.name, call.input) for call in turn.calls if not call.is_error]
    if form.json_body:
        assert same(made, calls), text
    else:
        assert all(any(same([call], [given]) for given in calls) for call in made), text
