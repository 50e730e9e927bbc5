"""The Inkling format: messages whose mark says what they are.

    <|content_thinking|>plan<|end_message|><|message_model|>get_weather<|content_invoke_tool_json|>
    {"name": "get_weather", "args": {"city": "Paris"}}<|end_message|>

The name in the JSON counts; one before the mark must be the same.
"""

from __future__ import annotations

from strands_sglang.tool_parsers.reading.format import guessed_name
from strands_sglang.tool_parsers.reading.json_call import JSONShape, read_object
from strands_sglang.tool_parsers.reading.messages import Message, MessagesParser
from strands_sglang.tool_parsers.reading.source import Source
from strands_sglang.tool_parsers.reading.turn import Attempt, Block
from strands_sglang.tool_parsers.result import PieceKind, ToolParseStatus

_INVOKE, _THINKING = "<|content_invoke_tool_json|>", "<|content_thinking|>"


class InklingToolParser(MessagesParser):
    """Reads the Inkling format."""

    start_mark = "<|message_model|>"
    start_needed = False
    body_marks = ("<|content_text|>", _THINKING, _INVOKE)
    end_marks = ("<|end_message|>",)
    call_mark = _INVOKE
    shape = JSONShape(arguments="args")

    def kind(self, header: str, mark: str) -> PieceKind:
        """Return what a message is, by its mark."""
        return {_INVOKE: PieceKind.CALL, _THINKING: PieceKind.REASONING}.get(mark, PieceKind.CONTENT)

    def read_message(self, source: Source, message: Message) -> Block:
        """Read the object of a call."""
        body = source.skip_space(message.body)
        read = source.json.read(body)
        if read.end < 0:
            name = guessed_name(source, body)
            attempt = self.broken(source, message, body, read.status, read.reason, name)
            return Block((attempt,), attempt.end)
        outcome, header = read_object(read, self.shape), message.header.strip()
        attempt = Attempt(message.start, read.end, outcome.status, outcome.name, outcome.input, outcome.reason)
        if header and outcome.status is ToolParseStatus.OK and header != outcome.name:
            reason = f"the call gives two names, {header[:60]!r} and {outcome.name!r}"
            attempt = attempt._replace(status=ToolParseStatus.MALFORMED, reason=reason)
        attempt = self.close(source, message, attempt)
        return Block((attempt,), attempt.end)
