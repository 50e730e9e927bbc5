"""The format of Muse Spark and Muse Glimmer.

     to=self<|message|>plan<|eom|><|start|>assistant to=get_weather<|message|><atem:function_calls>
    <atem:invoke name="get_weather"><atem:parameter name="city">Paris</atem:parameter></atem:invoke>
    </atem:function_calls><|eom|><|start|>assistant to=user<|message|>It is warm.<|eot|>

A message to `self` is reasoning; to `user` or `commentary`, or to nobody, it is content; to anyone else it is calls.
The name inside the body counts. Values are verbatim and typed by the schema.
"""

from __future__ import annotations

import re

from strands_sglang.tool_parsers.minimax_m2 import MiniMaxM2ToolParser
from strands_sglang.tool_parsers.reading.messages import Message, MessagesParser
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.tag_values import Head, Header, Wrong
from strands_sglang.tool_parsers.reading.turn import Block
from strands_sglang.tool_parsers.result import PieceKind, ToolParseStatus

_RECIPIENT = re.compile(r"(?:^|\s)to=([^\s<>|]*)")
_INVOKE = re.compile(r'<atem:invoke name="([^"<>\n]*)">')
_PARAMETER = re.compile(r'<atem:parameter name="([^"<>\n]+)">')


class _Calls(MiniMaxM2ToolParser):
    """The calls in the body of one message."""

    group_opener = "<atem:function_calls>"
    group_closer = "</atem:function_calls>"
    call_opener = "<atem:invoke name="
    call_closer = "</atem:invoke>"
    value_closer = "</atem:parameter>"
    value_openers = ("<atem:parameter name=",)

    def head(self, source: Source, place: int) -> Head | Wrong:
        """Read `<atem:invoke name="NAME">`."""
        match = _INVOKE.match(source.text, place)
        if match:
            return Head(match[1], match.end())
        return Wrong(f'{source.excerpt(place)} stands where <atem:invoke name="NAME"> must')

    def header(self, source: Source, place: int) -> Header | Wrong:
        """Read `<atem:parameter name="KEY">`."""
        match = _PARAMETER.match(source.text, place)
        if match:
            return Header(match[1], match.end())
        return Wrong(f'{source.excerpt(place)} stands where <atem:parameter name="KEY"> or {self.call_closer} must')


class MuseToolParser(MessagesParser):
    """Reads the Muse format."""

    end_marks = ("<|eom|>", "<|eot|>")

    def __init__(self) -> None:
        """Create the parser."""
        super().__init__()
        self._calls = _Calls()

    def kind(self, header: str, mark: str) -> PieceKind:
        """Return what a message is, by its recipient."""
        recipient = _RECIPIENT.search(header)
        if not recipient or recipient[1] in ("user", "commentary"):
            return PieceKind.CONTENT
        return PieceKind.REASONING if recipient[1] == "self" else PieceKind.CALL

    def display_name(self, header: str) -> str | None:
        """Return the recipient."""
        recipient = _RECIPIENT.search(header)
        return recipient[1] if recipient else None

    def read_message(self, source: Source, message: Message) -> Block:
        """Read the calls in the body, which must be all of it."""
        name, body = self.display_name(message.header), source.skip_space(message.body)
        if not source.at(self._calls.group_opener, body):
            reason = f"{source.excerpt(body)} stands where {self._calls.group_opener} must"
            attempt = self.broken(source, message, body, ToolParseStatus.MALFORMED, reason, name)
            return Block((attempt,), attempt.end)
        block = self._calls.read_call(source, body)
        attempts = list(block.attempts)
        if attempts[-1].status is ToolParseStatus.UNCLOSED:
            return block
        closed = self.close(source, message, attempts[-1]._replace(end=block.end))
        if closed.status is attempts[-1].status:
            return Block(attempts, closed.end)
        attempts[-1] = closed._replace(start=attempts[-1].start)
        return Block(attempts, closed.end)
