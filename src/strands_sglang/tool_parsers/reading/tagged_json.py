"""Formats whose calls are JSON between an opening and a closing delimiter.

Owns `TaggedJSONParser`. The JSON value delimits the body: it is decoded from behind the opener, and then the
closer must follow, so a closer written inside a string is text. One block is one call.
"""

from __future__ import annotations

from strands_sglang.tool_parsers.reading.format import BracketedParser, guessed_name
from strands_sglang.tool_parsers.reading.json_call import JSONShape, read_object
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.turn import Attempt


class TaggedJSONParser(BracketedParser):
    """Reads `opener JSON closer`.

    Attributes:
        shape: What the JSON object looks like.
    """

    shape: JSONShape = JSONShape()

    def read_body(self, source: Source, start: int, body: int) -> Attempt:
        """Read one JSON value and the closer after it."""
        read = source.json.read(body)
        if read.end < 0:
            return self.brackets.broken(source, start, body, read.status, read.reason, guessed_name(source, body))
        return self.brackets.close(source, start, read.end, read_object(read, self.shape))
