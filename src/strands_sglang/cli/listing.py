"""A rollout as text for a terminal: every token, where it came from, and its log-probability.

Shows what is recorded and nothing else: pieces are decoded one id at a time and never encoded again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from strands_sglang.rollout import Rollout, Segment

if TYPE_CHECKING:
    from rich.console import RenderableType

# Styles of two neighbouring tokens differ, so that their border shows.
_STYLES = {"prompt": ("grey62", "grey46"), "result": ("cyan", "dark_cyan"), "sampled": ("bold green", "bold yellow")}


Piece = Callable[[int], str]
"""Gives the text of one id."""


def listing(rollout: Rollout, piece: Piece) -> Iterator[RenderableType]:
    """Yield the rollout as lines for a rich console.

    Args:
        rollout: What to show.
        piece: Gives the text of one id.
    """
    from rich.text import Text

    position = 0
    for index, segment in enumerate(rollout.segments):
        position -= segment.replaces
        kind = "sampled" if segment.is_sampled else ("result" if index else "prompt")
        yield Text(_heading(segment, position, first=not index), style="bold")
        yield _tokens(segment, piece, kind)
        yield Text("")
        position += len(segment)


def summary(rollout: Rollout, stop_reason: str) -> Iterator[RenderableType]:
    """Yield the lengths of the three lists, what may be trained, and how the episode ended."""
    from rich.text import Text

    sampled = sum(rollout.loss_mask)
    scored = [value for value in rollout.logprobs if value is not None]
    lengths = f"token_ids {len(rollout.token_ids)} · loss_mask {len(rollout.loss_mask)}"
    yield Text(f"{lengths} · logprobs {len(rollout.logprobs)}", style="bold")
    yield Text(f"{sampled} tokens were sampled (mask 1), {len(rollout) - sampled} were not (mask 0)")
    if scored:
        yield Text(f"mean logprob of the sampled tokens {sum(scored) / len(scored):.4f}, lowest {min(scored):.4f}")
    yield Text(f"stop reason: {stop_reason}")


def _heading(segment: Segment, position: int, *, first: bool) -> str:
    """Return what a segment is, where it stands, and how it ended."""
    span = f"tokens {position} to {position + len(segment) - 1}" if len(segment) else "no tokens"
    if not segment.is_sampled:
        name = "prompt" if first else "tool results and template"
        replaced = " · takes the place of the sampled stop token" if segment.replaces else ""
        return f"{name} · {span} · loss mask 0{replaced}"
    ending = segment.facts.get("finish_reason", "?")
    return f"sampled · {span} · loss mask 1 · token and its logprob · ended by {ending}"


def _tokens(segment: Segment, piece: Piece, kind: str) -> RenderableType:
    """Return the tokens of a segment: running text for a prompt, a grid with log-probabilities for what was sampled."""
    from rich.columns import Columns
    from rich.text import Text

    styles = _STYLES[kind]
    pieces = [(_visible(piece(token)), styles[index % 2]) for index, token in enumerate(segment.ids)]
    if not segment.is_sampled:
        return Text.assemble(*pieces, overflow="fold")
    cells = (
        Text.assemble((text.replace(" ", "␣"), style), (f" {_number(logprob)}", "dim"))
        for (text, style), logprob in zip(pieces, segment.logprob_list(), strict=True)
    )
    return Columns(cells, padding=(0, 2), equal=True)


def _number(logprob: float | None) -> str:
    """Return a log-probability with two decimals, "–" where there is none."""
    return "–" if logprob is None else f"{logprob:.2f}".replace("-0.00", "0.00")


def _visible(text: str) -> str:
    """Return a token's text with its line breaks made visible."""
    return text.replace("\r", "␍").replace("\n", "⏎").replace("\t", "⇥")
