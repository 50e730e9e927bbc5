"""The Cohere format: Command R7B, A, A Reasoning, Command 4.

    <|START_THINKING|>plan<|END_THINKING|><|START_ACTION|>[
        {"tool_call_id": "0", "tool_name": "get_weather", "parameters": {"city": "Paris"}}
    ]<|END_ACTION|>

Answers stand between `<|START_RESPONSE|>` and `<|END_RESPONSE|>` (or `..._TEXT`), which is framing.
"""

from __future__ import annotations

from strands_sglang.tool_parsers.reading.json_call import JSONShape
from strands_sglang.tool_parsers.reading.json_list import JSONListParser
from strands_sglang.tool_parsers.reading.turn import Frame, Reasoning


class CohereToolParser(JSONListParser):
    """Reads the Cohere format."""

    opener = "<|START_ACTION|>"
    closer = "<|END_ACTION|>"
    shape = JSONShape(name="tool_name", arguments="parameters", id="tool_call_id")
    reasoning = (
        Reasoning(open="<|START_THINKING|>", close="<|END_THINKING|>", after_open="", before_close="", after_close=""),
    )
    frames = tuple(Frame(mark=f"<|{side}_{part}|>") for part in ("RESPONSE", "TEXT") for side in ("START", "END"))
    before_call = ""
