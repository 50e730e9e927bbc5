"""The BEAM format: harmony's messages with values between tags.

     to=get_weather<|channel|>analysis <|constrain|>xml<|message|><rfl:parameter name="city">
    Paris
    </rfl:parameter><|call|>

The newline on each side of a value is framing and must be there: the one behind it belongs to the closing tag. Values
are typed by the schema.
"""

from __future__ import annotations

import re

from strands_sglang.tool_parsers.gpt_oss import GptOssToolParser
from strands_sglang.tool_parsers.reading.messages import Message
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.tag_values import Head, Header, Parameters, ValueGrammar, Wrong
from strands_sglang.tool_parsers.reading.turn import Attempt, Block
from strands_sglang.tool_parsers.result import ToolParseStatus

_PARAMETER = re.compile(r'<rfl:parameter name="([^"<>\n]+)">\n')


class BeamToolParser(GptOssToolParser, ValueGrammar):
    """Reads the BEAM format."""

    recipients = ""
    content_type = re.compile(r"(?:<\|constrain\|>\s*|\s)xml\s*$")
    value_closer = "\n</rfl:parameter>"
    value_openers = ("<rfl:parameter name=",)

    def read_message(self, source: Source, message: Message) -> Block:
        """Read the parameters of a call."""
        attempt = self._read_parameters(source, message)
        return Block((attempt,), attempt.end)

    def _read_parameters(self, source: Source, message: Message) -> Attempt:
        name = self.display_name(message.header) or ""
        wrong = self.wrong_header(message.header)
        if wrong or not name:
            status = ToolParseStatus.MALFORMED if wrong else ToolParseStatus.MISSING_NAME
            return self.broken(source, message, message.body, status, wrong or "the call gives no tool name", None)
        read = Parameters()
        end = read.run(source, self, name, message.body)
        if isinstance(end, Wrong):
            return self.broken(source, message, read.reached, end.status, end.reason, name)
        attempt = self.close(source, message, Attempt(message.start, end, read.status, name, read.values, read.reason))
        return self._certain(source, attempt)

    def _certain(self, source: Source, attempt: Attempt) -> Attempt:
        """Return the attempt, ambiguous if another closing tag follows within the message: it may have ended early."""
        following = source.find(self.start_mark, attempt.end)
        further = source.find(self.value_closer, attempt.end)
        if source.by_id(self.end_marks[0]) or further < 0 or 0 <= following < further:
            return attempt
        reason = f"another {self.value_closer.strip()} follows the call, so where it ends cannot be told"
        attempt = attempt._replace(end=following if following >= 0 else source.end)
        if attempt.status is not ToolParseStatus.OK:
            return attempt
        return attempt._replace(status=ToolParseStatus.AMBIGUOUS, reason=reason)

    def head(self, source: Source, place: int) -> Head | Wrong:
        """Never used: the name stands in the header of the message."""
        raise NotImplementedError

    def header(self, source: Source, place: int) -> Header | Wrong:
        """Read `<rfl:parameter name="KEY">`."""
        match = _PARAMETER.match(source.text, place)
        if match:
            return Header(match[1], match.end())
        return Wrong(
            f'{source.excerpt(place)} stands where <rfl:parameter name="KEY">, a newline, or the end of the call must'
        )

    def ends(self, source: Source, place: int) -> bool:
        """Whether the message, or the text, ends at `place`."""
        return place == source.end or any(source.at(mark, place) for mark in self.end_marks)
