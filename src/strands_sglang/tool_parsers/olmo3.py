"""The OLMo 3 format.

    <function_calls>
    get_weather(city="Paris")
    get_time(zone="UTC")
    </function_calls>

One call stands on each line. The template writes values as JSON; Python's literals are read too.
"""

from __future__ import annotations

from strands_sglang.tool_parsers.reading.python_calls import PythonCallsParser


class Olmo3ToolParser(PythonCallsParser):
    """Reads the OLMo 3 format."""

    opener = "<function_calls>"
    closer = "</function_calls>"
