from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strands_sglang import SGLangClient, get_tokenizer, read_records
from strands_sglang.cli import main
from strands_sglang.engine import TINY_MODEL, EngineServer, Refusal, ScriptedEngine, Turn
from strands_sglang.engine.scripted.script import Step
from strands_sglang.runner import Episode

TARGET = "tests.unit.cli.run_agents:agent_factory"


class Served:
    """A scripted engine on a port of this machine, in a loop and a thread of its own."""

    def __init__(self) -> None:
        self.broken = False
        self.hangs = False
        engine = ScriptedEngine(
            self.step, tokenizer=get_tokenizer(TINY_MODEL), model_info={"tokenizer_path": str(TINY_MODEL)}
        )
        self.server = EngineServer(engine, port=0, grace=0.1)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.call(self.server.start())

    def step(self, request: dict[str, object]) -> Step:
        if self.hangs:
            return Turn(text="late", delay=3600)
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
        ("tests.unit.cli.run_leaves:agent_factory", "cannot be imported: SystemExit: 3"),
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
        ("[1, 2]", "line 2: a prompt that is a list holds content blocks or messages"),
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


def test_a_deadline_that_leaves_episodes_unplayed_is_told_by_the_exit_code(
    served: Served, prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["run", TARGET, str(prompts), "-o", str(tmp_path / "out.jsonl"), "--base-url", served.server.url]
    served.hangs = True
    first = main([*command, "--deadline", "0.5", "--concurrency", "1", "--no-progress"])
    served.hangs = False
    shown = capsys.readouterr().err

    assert first == 1
    assert "the same command goes on" in shown
    assert main([*command, "--no-progress", "--min-finished", "2", "--concurrency", "1"]) == 0


def test_prompts_of_a_pipe_are_all_played(served: Served, prompts: Path, tmp_path: Path) -> None:
    pipe, output = tmp_path / "pipe", tmp_path / "out.jsonl"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(prompts.read_bytes()))
    writer.start()

    code = main(["run", TARGET, str(pipe), "-o", str(output), "--base-url", served.server.url, "--no-progress"])
    writer.join()

    assert code == 0
    assert len(list(read_records(output))) == 4


def test_the_api_key_is_sent(prompts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, object]] = []

    class Recorded(SGLangClient):
        def __init__(self, base_url: str, **options: Any) -> None:
            made.append(options)
            super().__init__(base_url, **options)

    monkeypatch.setattr("strands_sglang.runner.target.SGLangClient", Recorded)
    command = ["run", TARGET, str(prompts), "-o", str(tmp_path / "out.jsonl"), "--base-url", "http://127.0.0.1:9"]

    assert main([*command, "--api-key", "secret"]) == 2
    assert made[0]["api_key"] == "secret"


def test_a_server_that_names_no_tokenizer_is_told(
    prompts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def model_info(_: SGLangClient) -> dict[str, object]:
        return {"model_path": "x"}

    monkeypatch.setattr(SGLangClient, "model_info", model_info)
    command = ["run", TARGET, str(prompts), "-o", str(tmp_path / "out.jsonl"), "--base-url", "http://127.0.0.1:9"]

    assert main(command) == 2
    assert "names no tokenizer" in capsys.readouterr().err
