"""What can come of comparing a prompt made piece by piece with the whole rendering.

Owns the verdicts, the causes of expected differences, and how a difference is told. See `judge` for how one is reached.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What came of a shape, from best to worst."""

    EXACT = "exact"
    """Every prompt has the ids of the whole rendering."""
    EXPECTED = "expected difference"
    """The prompts differ from the whole rendering inside sampled turns only, for a cause that was shown."""
    REFUSED = "refused"
    """The shape is refused, and the template's own renderings show why it has to be."""
    FAULT = "fault"
    """A prompt is not what the template makes, or a shape is refused without need."""


class Cause(StrEnum):
    """Why a whole rendering differs inside sampled turns."""

    REASONING = "the template leaves reasoning out of history"
    """Shown by rendering without that reasoning, or with other reasoning, which gives the same text."""
    REASONING_MARKS = "the template writes marks of reasoning otherwise in history"
    """The rest of the turn is the same, and what differs holds marks and blanks only."""
    REASONING_REFUSED = "the template refuses reasoning there"
    """Shown by the refusal, and by rendering without that reasoning, which is what the prompt is compared with."""
    ARGUMENTS_REFUSED = "the template refuses arguments of calls that are no texts"
    """Shown by the refusal, and by rendering with texts, which is what the prompt is compared with."""
    EMPTY_REFUSED = "the template refuses a turn without text"
    """Shown by the refusal, and by rendering with some text in it, after which the prompt parts are where they were
    put."""
    TEXT = "the template leaves out or moves text beside a call or reasoning"
    """Shown by rendering without that text, after which the prompt parts are where they were put."""
    CALLS = "the template does not write calls"
    """Shown by rendering without the calls, which gives the same text."""
    LAST = "the template writes a turn otherwise once it is not the last message"
    """Shown by the rendering in which it is last, and which holds it as it was sampled."""
    EMPTY = "the template writes a turn without text otherwise"
    """Shown by rendering with some text in it, after which the prompt parts are where they were put."""
    SPLIT = "the sampled text is split into tokens otherwise than when encoded anew"
    """The texts are equal."""
    BLANKS = "blanks before the end of a cut turn are left out"
    """They would merge with the cut text; the turn is otherwise the same."""
    HELD = "the host holds the cut turn otherwise than it was sampled"
    """Only turns cut inside a call or a character, or before their answer began."""
    STOP = "the sampled stop token stays before the template's own"
    """The turn is otherwise the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first place where a prompt and the whole rendering part.

    Attributes:
        position: Index of the first differing token in both.
        part: Which part of the prompt it is in: "first prompt", "sampled turn 2", "bridge 1".
        before: Text of the tokens before it, the same in both.
        prompt: Text from there on in the prompt.
        whole: Text from there on in the whole rendering.
        prompt_token: The differing token of the prompt; empty at its end.
        whole_token: The differing token of the whole rendering; empty at its end.
    """

    position: int
    part: str
    before: str
    prompt: str
    whole: str
    prompt_token: str
    whole_token: str

    def __str__(self) -> str:
        """Return it in words."""
        return (
            f"token {self.position}, in {self.part}: {self.prompt_token!r} instead of {self.whole_token!r}; "
            f"after {self.before!r} comes {self.prompt!r}, the whole rendering has {self.whole!r}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What came of one prompt.

    Attributes:
        verdict: Exact, expected or fault.
        causes: Causes of expected differences, in the order met.
        detail: What is wrong, in words; empty unless it is a fault.
        difference: Where they part first, or None when exact.
    """

    verdict: Verdict
    causes: tuple[Cause, ...] = ()
    detail: str = ""
    difference: Difference | None = None
