from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from strands_sglang import Rollout
from strands_sglang.cli import main
from strands_sglang.cli.calculator import evaluate


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def test_the_demo_answers_and_shows_the_record(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code = main(["demo", "What is 25 * 17?", "--output", str(tmp_path / "rollout.json")])

    shown = capsys.readouterr().out
    rollout = Rollout.from_json((tmp_path / "rollout.json").read_text())
    assert code == 0
    assert re.search(r"assistant .*425", shown)
    assert "calculator(expression='25 * 17')" in shown
    assert f"token_ids {len(rollout)} · loss_mask {len(rollout)} · logprobs {len(rollout)}" in shown
    assert f"{sum(rollout.loss_mask)} tokens were sampled" in shown
    assert "stop reason: end_turn" in shown


@pytest.mark.parametrize("thinking", ["--enable-thinking", "--no-enable-thinking"])
def test_the_demo_thinks_or_not_as_told(capsys: pytest.CaptureFixture[str], thinking: str) -> None:
    assert main(["demo", thinking]) == 0

    shown = capsys.readouterr().out
    assert ("thinks" in shown) == (thinking == "--enable-thinking")
    assert "425" in shown


def test_the_listing_shows_every_token_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    main(["demo", "--output", str(tmp_path / "rollout.json")])

    saved = json.loads((tmp_path / "rollout.json").read_text())
    shown = capsys.readouterr().out
    spans = [(int(first), int(last)) for first, last in re.findall(r"tokens (\d+) to (\d+)", shown)]
    lengths = [len(segment["ids"]) for segment in saved["segments"]]
    assert [last - first + 1 for first, last in spans] == lengths
    assert [first for first, _ in spans] == [sum(lengths[:index]) for index in range(len(lengths))]


@pytest.mark.parametrize("temperature", ["-1", "nan", "inf", "warm"])
def test_a_temperature_that_cannot_be_is_refused_as_an_option(
    capsys: pytest.CaptureFixture[str], temperature: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["demo", "--temperature", temperature])

    assert ended.value.code == 2
    assert "--temperature" in capsys.readouterr().err


@pytest.fixture
def web_server(tmp_path: Path) -> Iterator[str]:
    """A web server that is no SGLang."""
    code = (
        "import http.server\n"
        "server = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n"
        "print(server.server_port, flush=True)\n"
        "server.serve_forever()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=tmp_path, text=True
    )
    assert process.stdout
    yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    process.stdout.close()
    process.kill()
    process.wait()


def test_a_server_that_is_no_sglang_is_named(capsys: pytest.CaptureFixture[str], web_server: str) -> None:
    assert main(["demo", "--base-url", web_server]) == 2

    told = capsys.readouterr().err
    assert web_server in told
    assert "hint:" in told


def test_a_server_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--base-url", "http://127.0.0.1:9"]) == 2

    told = capsys.readouterr().err
    assert "http://127.0.0.1:9" in told
    assert "Traceback" not in told


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--tokenizer", "./nowhere"], "nowhere"),
        (["--output", "nowhere/rollout.json"], "--output: 'nowhere/rollout.json'"),
        (["--tool-parser", "hermess"], "did you mean 'hermes'"),
    ],
)
def test_a_wrong_option_is_one_clear_line(capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    assert main(["demo", *arguments]) == 2

    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("25 * 17", "425"),
        ("2 * (3 + 4) - 1", "13"),
        ("10 / 4", "2.5"),
        ("-3 + 1", "-2"),
        ("1 / 3", "0.3333"),
        ("1 / 0", "Error: division by zero"),
        ("__import__('os')", "Error: invalid expression"),
        ("2 ** 9999999", "Error: invalid expression"),
        ("9" * 300, "Error: expression too long"),
        ("9e999", "Error: number too large"),
        ("(" * 150, "Error: invalid expression"),
        ("True + 1", "Error: invalid expression"),
        ("", "Error: invalid expression"),
    ],
)
def test_the_calculator_does_arithmetic_and_nothing_else(expression: str, value: str) -> None:
    assert evaluate(expression) == value
