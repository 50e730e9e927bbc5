"""Cases of the gpt_oss format."""

from __future__ import annotations

from tests.unit.tool_parsers.formats import Case, Format, dumps


def call(name: str, arguments: str) -> str:
    return f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{arguments}<|call|>"


NEXT = "<|start|>assistant"
BODY = '<|message|>{"a": 1}<|call|>'
READ = (("ok", "f", {"a": 1}),)

FORMAT = Format(
    name="gpt_oss",
    render=lambda calls: NEXT.join(call(name, dumps(arguments)) for name, arguments in calls),
    json_body=call,
    marks=(NEXT, "<|channel|>commentary to=functions.f", "<|message|>", "<|call|>", "<|end|>", "<|channel|>analysis"),
    think=None,
    needs_all=True,
    cases=(
        Case(
            fact="analysis is reasoning, commentary and final are content",
            text=f"<|channel|>analysis<|message|>plan<|end|>{NEXT}<|channel|>commentary<|message|>I look.<|end|>"
            f"{NEXT}{call('f', '{}')}{NEXT}<|channel|>final<|message|>Done.<|return|>",
            calls=(("ok", "f", {}),),
            content="I look.Done.",
            reasoning="plan",
        ),
        Case(fact="the recipient may stand first", text=f" to=functions.f<|channel|>commentary json{BODY}", calls=READ),
        Case(fact="the channel may be analysis", text=f"<|channel|>analysis to=functions.f code{BODY}", calls=READ),
        Case(fact="the content type may be left out", text=f"<|channel|>commentary to=functions.f{BODY}", calls=READ),
        Case(
            fact="a name may hold dots",
            text=f"<|channel|>commentary to=functions.a.b{BODY}",
            calls=(("ok", "a.b", {"a": 1}),),
        ),
        Case(
            fact="the end may have been cut off if the turn stopped",
            text=call("f", "{}").removesuffix("<|call|>"),
            calls=(("ok", "f", {}),),
        ),
        Case(
            fact="but not if it reached its limit",
            text=call("f", "{}").removesuffix("<|call|>"),
            calls=("unclosed",),
            context={"finish_reason": "length"},
        ),
        Case(
            fact="a built-in tool is an attempt in error",
            text="<|channel|>analysis to=python code<|message|>print(1)<|call|>",
            calls=("malformed",),
        ),
        Case(
            fact="so is another content type",
            text=f"<|channel|>commentary to=functions.f <|constrain|>yaml{BODY}",
            calls=("malformed",),
        ),
        Case(
            fact="reasoning that the prompt opened ends at its end mark",
            text=f"plan<|end|>{NEXT}{call('f', '{}')}",
            calls=(("ok", "f", {}),),
            reasoning="plan",
            context={"reasoning_open": True},
        ),
        Case(
            fact="a call behind reasoning that never ended is not made",
            text=f"<|channel|>analysis<|message|>plan{NEXT}{call('f', '{}')}",
            calls=("in_open_reasoning",),
            reasoning="plan",
        ),
        Case(
            fact="a header of a call without a body is an attempt",
            text="<|channel|>commentary to=functions.f <|constrain|>json",
            calls=("unclosed",),
        ),
        Case(fact="plain text is content", text="Hello.", content="Hello."),
    ),
)
