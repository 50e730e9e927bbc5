from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from strands_sglang import get_tokenizer, read_records
from strands_sglang.cli import main
from strands_sglang.engine import TINY_MODEL, EngineServer, Refusal, ScriptedEngine, Turn
from strands_sglang.engine.scripted.script import Step
from strands_sglang.runner import Episode

TARGET = "tests.unit.cli.run_agents:agent_factory"


class Served:
    """A scripted engine on a port of this machine, in a loop and a thread of its own."""

    def __init__(self) -> None:
        self.broken = False
        engine = ScriptedEngine(
            self.step, tokenizer=get_tokenizer(TINY_MODEL), model_info={"tokenizer_path": str(TINY_MODEL)}
        )
        self.server = EngineServer(engine, port=0, grace=0.1)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.call(self.server.start())

    def step(self, request: dict[str, object]) -> Step:
        return Refusal(status=500, body="x") if self.broken else Turn(text="It is 5.<|im_end|>")

    def call(self, awaited: object) -> None:
        asyncio.run_coroutine_threadsafe(awaited, self.loop).result(60)  # type: ignore[arg-type]

    def close(self) -> None:
        self.call(self.server.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    served = Served()
    yield served
    served.close()


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    rows = [{"prompt": f"What is {number} + 3?", "id": number, "label": number + 3} for number in range(4)]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    return path


def test_prompts_become_rewarded_records_and_a_second_run_finds_nothing_to_do(
    served: Served, prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out.jsonl"
    command = ["run", TARGET, str(prompts), "-o", str(output), "--base-url", served.server.url, "--group-size", "2"]
    command += ["--reward", "tests.unit.cli.run_agents:reward", "--tool-parser", "hermes", "--progress", "plain"]

    first, shown = main(command), capsys.readouterr()
    second, again = main([*command, "--no-progress"]), capsys.readouterr()

    episodes = [Episode.of_record(record) for record in read_records(output)]
    assert (first, second) == (0, 0)
    assert "8 episodes in" in shown.out
    assert "task_complete 8" in shown.out
    assert "mean reward 0.250" in shown.err
    assert "8 more were finished before" in again.out
    assert again.err == ""
    assert sum(episode.reward or 0 for episode in episodes) == 2  # the two episodes of 2 + 3


def test_what_did_not_finish_is_told_and_sampled_again(
    served: Served, prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out.jsonl"
    command = ["run", TARGET, str(prompts), "-o", str(output), "--base-url", served.server.url, "--no-progress"]
    command += ["--tokenizer", str(TINY_MODEL), "--limit-model-calls", "5"]
    served.broken = True
    first = main([*command, "--timeout", "60"])
    served.broken = False

    assert first == 1
    assert "4 did not finish; the same command samples them again" in capsys.readouterr().err
    assert main(command) == 0
    finished = [Episode.of_record(record).finished for record in read_records(output)]
    assert finished == [False] * 4 + [True] * 4


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("no_colon", "not of the form module:attribute"),
        ("no.such.module:x", "there is no module 'no'"),
        ("tests.unit.cli.run_agents:agent_factry", "has no 'agent_factry', did you mean 'agent_factory'"),
        ("tests.unit.cli.run_agents:NOT_CALLABLE", "is a int, which cannot be called"),
    ],
)
def test_a_target_that_cannot_be_loaded_is_told(
    prompts: Path, tmp_path: Path, target: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", target, str(prompts), "-o", str(tmp_path / "out.jsonl")]) == 2

    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"prompt": ', "line 2:"),
        ("7", "line 2: not a prompt: 7"),
        ('{"text": "x"}', "line 2: not a prompt"),
    ],
)
def test_a_damaged_line_is_told_before_anything_is_sampled(
    tmp_path: Path, line: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts, output = tmp_path / "prompts.jsonl", tmp_path / "out.jsonl"
    prompts.write_text(f'"fine"\n{line}\n')

    assert main(["run", TARGET, str(prompts), "-o", str(output)]) == 2

    assert words in capsys.readouterr().err
    assert not output.exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-o", "no/such/folder/out.jsonl"], "there is no folder"),
        (["--concurrency", "0"], "concurrency"),
        (["--sampling-params", "{"], "--sampling-params is not JSON"),
        (["--sampling-params", "[1]"], "has to be a JSON object"),
        (["--reward", "tests.unit.cli.run_agents:nothing"], "has no 'nothing'"),
        (["--limit-tool-iters", "-3"], "max_tool_iters"),
    ],
)
def test_options_that_cannot_be_meant_are_told(
    prompts: Path, tmp_path: Path, options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", TARGET, str(prompts), "-o", str(tmp_path / "out.jsonl"), *options]) == 2

    assert words in capsys.readouterr().err


def test_prompts_that_are_not_there_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", TARGET, str(tmp_path / "none.jsonl"), "-o", str(tmp_path / "out.jsonl")]) == 2

    assert "cannot be read" in capsys.readouterr().err


def test_a_server_that_is_not_there_is_told_before_the_first_episode(
    prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out.jsonl"

    assert main(["run", TARGET, str(prompts), "-o", str(output), "--base-url", "http://127.0.0.1:9"]) == 2

    assert "127.0.0.1:9" in capsys.readouterr().err
    assert not output.exists()
