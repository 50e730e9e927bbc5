"""What a person sees of a run: a display on a terminal, a line now and then elsewhere, or nothing.

It only looks at the counters. Lines go to standard error, so that they mix with nothing that a program prints.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from strands_sglang.errors import SGLangConfigError

from .run_options import ProgressKind
from .tally import Tally

if TYPE_CHECKING:
    from rich.table import Table

_FRAME_SECONDS = 0.25
_LINE_SECONDS = 10.0


class Progress:
    """Shows a run's counters; a context manager."""

    def __init__(self, kind: ProgressKind, tally: Tally) -> None:
        """Prepare to show.

        Args:
            kind: See `RunOptions.progress`.
            tally: What is shown.

        Raises:
            SGLangConfigError: If the display is asked for and rich is not installed.
        """
        self._tally = tally
        self._lines = False
        self._live: Any = None
        if kind is False:
            return
        self._lines = kind == "plain" or (kind != "rich" and not (sys.stderr.isatty() and _has_rich()))
        if not self._lines:
            self._live = _display(table(tally))

    def __enter__(self) -> Self:
        """Begin to show."""
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Show the last numbers."""
        if self._live is not None:
            self._live.update(table(self._tally))
            self._live.stop()
        elif self._lines:
            self._print()

    def say(self, words: str) -> None:
        """Show a line between the numbers, where anything is shown."""
        if self._live is not None:
            self._live.console.print(words, highlight=False)
        elif self._lines:
            print(words, file=sys.stderr, flush=True)

    async def keep_up(self) -> None:
        """Show the numbers from time to time, until cancelled."""
        if self._live is None and not self._lines:
            return
        with suppress(asyncio.CancelledError):
            while True:
                await asyncio.sleep(_LINE_SECONDS if self._lines else _FRAME_SECONDS)
                if self._lines:
                    self._print()
                else:
                    self._live.update(table(self._tally), refresh=True)

    def _print(self) -> None:
        print(line(self._tally), file=sys.stderr, flush=True)


def line(tally: Tally) -> str:
    """Return the numbers as one line."""
    return " · ".join(f"{name} {value}" for name, value in rows(tally))


def rows(tally: Tally) -> list[tuple[str, str]]:
    """Return what is shown, name and value."""
    numbers = tally.metrics()
    shown = [
        ("episodes", f"{numbers['episodes']} done, {tally.running} running"),
        ("tokens/s", f"{numbers['sampled_tokens_per_second']:.0f}"),
        ("turns", str(tally.turns)),
        ("tool calls", str(tally.tool_calls)),
    ]
    if numbers["mean_reward"] is not None:
        shown.append(("mean reward", f"{numbers['mean_reward']:.3f}"))
    for name, count in (
        ("skipped", tally.skipped),
        ("retries", tally.retries),
        ("lost", tally.lost),
        ("aborts", tally.aborts),
        ("stopped", tally.stopped),
        ("unreadable calls", tally.failed_calls),
    ):
        if count:
            shown.append((name, str(count)))
    endings = ", ".join(f"{reason.value} {count}" for reason, count in tally.ended.most_common())
    return [*shown, ("endings", endings or "none yet"), ("seconds", f"{tally.seconds:.0f}")]


def table(tally: Tally) -> Table:
    """Return the numbers as a table for a terminal."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", justify="right")
    grid.add_column()
    for name, value in rows(tally):
        grid.add_row(name, value)
    return grid


def _has_rich() -> bool:
    try:
        import rich  # noqa: F401
    except ImportError:
        return False
    return True


def _display(first: Any) -> Any:
    """Return rich's live display; it draws only when told, so that no thread of its own runs."""
    from rich.console import Console
    from rich.live import Live

    return Live(first, console=Console(stderr=True), auto_refresh=False, transient=False)


def check_progress(kind: ProgressKind) -> None:
    """Refuse a display that cannot be had, before anything is begun."""
    if kind == "rich" and not _has_rich():
        raise SGLangConfigError("progress='rich' needs rich", hint='pip install "strands-sglang[demo]", or "plain"')
