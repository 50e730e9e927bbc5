from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from opentelemetry import metrics
from rich.console import Console

from strands_sglang import run_episodes
from strands_sglang.engine import Refusal
from strands_sglang.runner.progress import line, table
from strands_sglang.runner.run_options import ProgressKind
from strands_sglang.runner.tally import Tally

from .conftest import END, World, call

Build = Callable[..., World]


async def shown_by(world: Build, progress: ProgressKind) -> None:
    here = world(
        lambda text, turn: Refusal(status=500, body="x") if "bad" in text else call() if not turn else "3" + END
    )
    run = run_episodes(here.agent, ["good", "bad"], progress=progress, reward=lambda _: 0.5, retries=1, retry_delay=0)
    async for _ in run:
        pass


async def test_plain_lines_tell_everything(world: Build, capsys: pytest.CaptureFixture[str]) -> None:
    await shown_by(world, "plain")

    shown = capsys.readouterr()
    assert shown.out == ""
    for part in ("2 done, 0 running", "tool calls 1", "mean reward 0.500", "retries 1", "server_error 1"):
        assert part in shown.err


async def test_the_display_tells_the_same(world: Build, capsys: pytest.CaptureFixture[str]) -> None:
    await shown_by(world, "rich")

    assert "server_error 1" in capsys.readouterr().err


async def test_no_terminal_gets_lines(world: Build, capsys: pytest.CaptureFixture[str]) -> None:
    await shown_by(world, "auto")

    assert " · " in capsys.readouterr().err


async def test_nothing_is_shown_unless_asked_for(world: Build, capsys: pytest.CaptureFixture[str]) -> None:
    await shown_by(world, False)

    assert capsys.readouterr().err == ""


def test_the_numbers_are_readable_before_anything_ended() -> None:
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(table(Tally()))

    assert "none yet" in console.export_text()
    assert "none yet" in line(Tally())


class Counted:
    """An instrument that keeps what it is told."""

    def __init__(self, name: str, told: dict[str, float]) -> None:
        self.name, self.told = name, told

    def add(self, amount: float, attributes: object = None) -> None:
        self.told[self.name] = self.told.get(self.name, 0) + amount

    record = add


class Meter:
    """What a configured OpenTelemetry SDK gives, as far as it is used."""

    def __init__(self) -> None:
        self.told: dict[str, float] = {}

    def create_counter(self, name: str, *_: str) -> Counted:
        return Counted(name, self.told)

    create_histogram = create_counter


async def test_a_configured_opentelemetry_is_told(world: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    meter = Meter()
    monkeypatch.setattr(metrics, "get_meter", lambda *_: meter)

    await shown_by(world, False)

    assert meter.told["strands_sglang.episodes"] == 2
    assert meter.told["strands_sglang.tool_calls"] == 1
    assert meter.told["strands_sglang.retries"] == 1
    assert meter.told["strands_sglang.turns"] == 2
