"""The Seed-OSS format: Qwen XML between tags of its own, with verbatim values.

    <seed:tool_call>
    <function=get_weather>
    <parameter=city>Paris</parameter>
    </function>
    </seed:tool_call>

Newlines in a value are data. The template prints what is not a string as Python does, so where the schema does not
declare a string, Python literals are read beside JSON.
"""

from __future__ import annotations

from strands_sglang.tool_parsers.qwen_xml import QwenXMLToolParser
from strands_sglang.tool_parsers.reading.turn import Reasoning


class SeedOSSToolParser(QwenXMLToolParser):
    """Reads the Seed-OSS format."""

    opener = "<seed:tool_call>"
    closer = "</seed:tool_call>"
    reasoning = (Reasoning(open="<seed:think>", close="</seed:think>", before_open="\n", after_close="\n"),)
    newlines_framed = False
    spellings = "python"
