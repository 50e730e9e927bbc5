"""The MiMo-V2 format: Qwen XML with verbatim values.

    <tool_call>
    <function=get_weather>
    <parameter=city>Paris</parameter>
    </function>
    </tool_call>

Newlines in a value are data, as the model's own prompt says; nothing is unescaped.
"""

from __future__ import annotations

from strands_sglang.tool_parsers.qwen_xml import QwenXMLToolParser
from strands_sglang.tool_parsers.reading.turn import Reasoning


class MiMoToolParser(QwenXMLToolParser):
    """Reads the MiMo-V2 format."""

    before_call = ""
    reasoning = (Reasoning(after_open="", before_close="", after_close=""),)
    newlines_framed = False
