"""The harmony format of gpt-oss.

    <|channel|>analysis<|message|>plan<|end|>
    <|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>
    {"city": "Paris"}<|call|>

The recipient makes a message a call, whatever its channel: `to=functions.NAME`, before the channel or behind it, NAME
being all that follows. A message to anyone else (`python`, `browser.search`) is an attempt in error: those tools are
built into the model's prompt and not calls of a function. Without a recipient, analysis is reasoning and all else is
content. `<|call|>` and `<|return|>` end the turn and may be cut off; then the finish reason tells whether the call is
whole.
"""

from __future__ import annotations

import re

from strands_sglang.tool_parsers.reading.json_call import arguments_of
from strands_sglang.tool_parsers.reading.messages import Message, MessagesParser
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.turn import Attempt, Block
from strands_sglang.tool_parsers.result import PieceKind, ToolParseStatus

_RECIPIENT = re.compile(r"(?:^|\s)to=([^\s<>|]*)")
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")
_PEOPLE = ("user", "assistant", "all")
_CALL_CHANNELS = ("commentary", "analysis")


class GptOssToolParser(MessagesParser):
    """Reads the harmony format."""

    end_marks = ("<|end|>", "<|call|>", "<|return|>")
    delimiters = ("<|channel|>", "<|constrain|>")
    recipients = "functions."
    content_type = re.compile(r"(?:<\|constrain\|>\s*|\s)(?:json|code)\s*$")

    def kind(self, header: str, mark: str) -> PieceKind:
        """Return what a message is, by its recipient and then its channel."""
        recipient = _RECIPIENT.search(header)
        if recipient and recipient[1] not in _PEOPLE:
            return PieceKind.CALL
        channel = _CHANNEL.search(header)
        return PieceKind.REASONING if channel and channel[1] == "analysis" else PieceKind.CONTENT

    def display_name(self, header: str) -> str | None:
        """Return the recipient."""
        recipient = _RECIPIENT.search(header)
        return recipient[1].removeprefix(self.recipients) if recipient else None

    def read_message(self, source: Source, message: Message) -> Block:
        """Read the arguments of a call."""
        attempt = self._read(source, message)
        return Block((attempt,), attempt.end)

    def _read(self, source: Source, message: Message) -> Attempt:
        name, body = self.display_name(message.header), source.skip_space(message.body)
        wrong = self.wrong_header(message.header)
        if wrong:
            return self.broken(source, message, body, ToolParseStatus.MALFORMED, wrong, name)
        if not name:
            return self.broken(source, message, body, ToolParseStatus.MISSING_NAME, "the call gives no tool name", None)
        read = source.json.read(body)
        if read.end < 0:
            return self.broken(source, message, body, read.status, read.reason, name)
        outcome = arguments_of(name, read)
        attempt = Attempt(message.start, read.end, outcome.status, name, outcome.input, outcome.reason)
        return self.close(source, message, attempt)

    def wrong_header(self, header: str) -> str:
        """Return what is wrong with the header of a call, or ""."""
        recipients, channels = _RECIPIENT.findall(header), _CHANNEL.findall(header)
        if len(recipients) > 1 or not recipients[0].startswith(self.recipients):
            return f"the message is addressed to {' and '.join(recipients)}, which is no {self.recipients}NAME"
        if len(channels) != 1 or channels[0] not in _CALL_CHANNELS:
            return f"the header {header[:80]!r} gives no channel that calls are made in"
        rest = _CHANNEL.sub("", _RECIPIENT.sub("", self.content_type.sub("", header)))
        return "" if rest.strip() in ("", "assistant") else f"the header {header[:80]!r} is not that of a call"
