"""The workload of the provider's benchmark: one tool, a model that calls it in every turn but the last.

Owns the texts and their ids, as one JSON file that the stub and the workers read, whatever environment they run in.
Everything in it is made here from a seed; the ids come from a real tokenizer with its chat template.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

RESULT_TOKENS = (500, 4_000)
SYSTEM = "You are a careful assistant. Look things up before you answer, one at a time, and name your sources. " * 4
QUESTION = "Which of the harbours on this coast can take a ship of seven metres draught at low water?"
TOOL_NAME = "look_up"
TOOL_DESCRIPTION = "Looks something up in the pilot book and returns the section about it."
TOOL_SCHEMA = {
    "type": "object",
    "properties": {"topic": {"type": "string", "description": "What to look up."}},
    "required": ["topic"],
}
_WORDS = (
    "harbour", "anchorage", "channel", "depth", "metres", "sand", "rock", "tide", "current", "wind", "west", "north",
    "light", "buoy", "pier", "quay", "berth", "chart", "datum", "low", "high", "water", "neap", "spring", "ferry",
    "pilot", "vessel", "draught", "entrance", "breakwater", "shoal", "bar", "ebb", "flood", "about", "between",
    "from", "near", "after", "before", "along", "with", "without", "7", "12", "3.5", "40", "0.8", "115",
)  # fmt: skip


def write_workload(tokenizer_dir: str, path: Path, *, tools: int = 1) -> None:
    """Write the workload for one tokenizer.

    Args:
        tokenizer_dir: The tokenizer's folder.
        path: Where to write it.
        tools: Tools on offer; the model calls the first one.
    """
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    tool = {"name": TOOL_NAME, "description": TOOL_DESCRIPTION, "parameters": TOOL_SCHEMA}
    others = [other_tool(number) for number in range(1, tools)]
    first = tokenizer.apply_chat_template(
        [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}],
        tools=[{"type": "function", "function": each} for each in (tool, *others)],
        add_generation_prompt=True,
        return_dict=False,
    )
    arguments = {"topic": "depth in the outer harbour of the third port on the list, and the bar before it"}
    said = "The section on the second port gives the depth at the pier, but not on the bar, so I go on. " * 3
    call = f'{said}\n<tool_call>\n{{"name": "{TOOL_NAME}", "arguments": {json.dumps(arguments)}}}\n</tool_call>'
    answer = "Two of them can: the second port at any tide, and the fifth one at neaps. " * 6
    end = tokenizer.eos_token_id
    workload = {
        "tokenizer": str(tokenizer_dir),
        "system": SYSTEM,
        "question": QUESTION,
        "tool": tool,
        "other_tools": others,
        "first_prompt": first,
        "call": {"text": call, "ids": [*encode(tokenizer, call), end], "said": said, "arguments": arguments},
        "answer": {"text": answer, "ids": [*encode(tokenizer, answer), end]},
        "end_id": end,
        # A turn's number is the number of calls in its prompt, beyond those that the system prompt shows.
        "call_id": tokenizer.convert_tokens_to_ids("<tool_call>"),
        "results": {str(size): result_of(tokenizer, size) for size in RESULT_TOKENS},
    }
    workload["shown_calls"] = first.count(workload["call_id"])
    path.write_text(json.dumps(workload))


def other_tool(number: int) -> dict[str, Any]:
    """Return a tool that is only offered, of the size that tools of a server of tools have."""
    words = random.Random(number).choices(_WORDS, k=60)
    properties = {f"{words[i]}_{i}": {"type": "string", "description": " ".join(words[i : i + 12])} for i in range(4)}
    schema = {"type": "object", "properties": properties, "required": list(properties)[:1]}
    return {"name": f"tool_{number}", "description": " ".join(words), "parameters": schema}


def encode(tokenizer: Any, text: str) -> list[int]:
    """Return the ids of a text."""
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
    return ids


def result_of(tokenizer: Any, size: int) -> dict[str, Any]:
    """Return a tool result of about so many tokens, and its ids."""
    rng = random.Random(size)
    text = ""
    while len(ids := encode(tokenizer, text)) < size:
        missing = size - len(ids)
        text += " ".join(rng.choice(_WORDS) for _ in range(max(8, missing // 2))) + ".\n"
    return {"text": text, "ids": ids}
