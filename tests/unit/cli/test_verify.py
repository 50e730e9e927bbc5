"""`strands-sglang verify`: exit codes, and what is shown."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

# The matrices are too small for a second BLAS thread to pay, and it spins. Read when NumPy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest

from strands_sglang import SGLangClient, Trajectory
from strands_sglang.cli import main
from strands_sglang.engine import Refusal, ScriptedEngine, TinyEngine, serve
from strands_sglang.records import write_parquet
from tests.unit.verification.conftest import copy_of, sample, with_logprob


class Served:
    """An engine on a port, in a thread of its own."""

    def __init__(self, engine: TinyEngine | ScriptedEngine) -> None:
        self.url = ""
        self._engine = engine
        self._ready, self._done = threading.Event(), asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        async with serve(self._engine, port=0) as server:
            self.url = server.url
            self._ready.set()
            await self._done.wait()

    def __enter__(self) -> Served:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The shipped model on a port."""
    with Served(TinyEngine(seed=0, weight_version="v0")) as served:
        yield served.url


@pytest.fixture(scope="module")
def episode(url: str) -> Trajectory:
    """Two turns of the shipped model."""

    async def play() -> Trajectory:
        async with SGLangClient(url) as client:
            trajectory = Trajectory(id="e1")
            root = await sample(client, trajectory, None, [1016, 872, 198, 21, 22], 0)
            await sample(client, trajectory, root, [30, 31], 0)
            return trajectory

    return asyncio.run(play())


def saved(path: Path, *trajectories: Trajectory) -> str:
    path.write_text("".join(trajectory.to_json() + "\n" for trajectory in trajectories))
    return str(path)


def damaged(trajectory: Trajectory) -> Trajectory:
    trajectory = copy_of(trajectory)
    with_logprob(trajectory.turns[1], 3, -60.0)
    return trajectory


def test_an_exact_record_is_verified(
    url: str, episode: Trajectory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["verify", saved(tmp_path / "r.jsonl", episode, episode), "--base-url", url, "--complete"])

    shown = capsys.readouterr().out
    assert code == 0
    assert "episode e1: 2 turns in 1 branch, 18 of 18 sampled tokens compared; weights in place: v0" in shown
    assert "verified: every sampled token" in shown
    assert shown.endswith("2 episodes: no failure\n")


def test_a_damaged_record_fails_and_shows_the_place_in_words(
    url: str, episode: Trajectory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["verify", saved(tmp_path / "r.jsonl", damaged(episode), episode), "--base-url", url])

    shown = capsys.readouterr().out
    assert code == 1
    assert "turn 1: differs" in shown
    # The tokenizer is the one that the server names.
    assert ">> " in shown
    assert shown.endswith("2 episodes: 1 FAILED\n")


def test_as_json_it_is_one_object(
    url: str, episode: Trajectory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["verify", saved(tmp_path / "r.jsonl", damaged(episode)), "--base-url", url, "--json"])

    shown = json.loads(capsys.readouterr().out)
    assert code == 1
    assert (shown["ok"], shown["complete"]) == (False, False)
    assert shown["episodes"][0]["turns"][1]["first"]["offset"] == 3


def test_a_saved_rollout_is_verified_too(url: str, episode: Trajectory, tmp_path: Path) -> None:
    path = tmp_path / "rollout.json"
    path.write_text(episode.branches[0].to_json() + "\n")

    assert main(["verify", str(path), "--base-url", url, "--complete"]) == 0


@pytest.mark.parametrize("name", ["records.parquet", "records.jsonl"])
def test_a_table_of_records_is_verified_too(
    url: str, episode: Trajectory, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / name
    write_parquet([episode, damaged(episode)], path)

    assert main(["verify", str(path), "--base-url", url]) == 1
    assert capsys.readouterr().out.endswith("2 episodes: 1 FAILED\n")
    path.write_bytes(path.read_bytes()[:-20])
    assert main(["verify", str(path), "--base-url", url]) == 2
    assert "is not a Parquet file, or damaged" in capsys.readouterr().err


@pytest.mark.parametrize("size", ["0", "-5", "many"])
def test_a_vocabulary_has_a_size(tmp_path: Path, size: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["verify", str(tmp_path / "r.jsonl"), "--base-url", "http://127.0.0.1:9", "--vocab-size", size])

    assert f"'{size}' is not an integer of 1 or more" in capsys.readouterr().err


def test_what_cannot_be_compared_fails_only_where_all_has_to_be(url: str, episode: Trajectory, tmp_path: Path) -> None:
    partly = copy_of(episode)
    with_logprob(partly.turns[1], 3, None)
    file = saved(tmp_path / "r.jsonl", partly)

    assert main(["verify", file, "--base-url", url]) == 0
    assert main(["verify", file, "--base-url", url, "--complete"]) == 1


def test_a_server_without_generate_fails_each_turn(
    episode: Trajectory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Served(ScriptedEngine(lambda _: Refusal(status=404, body={"detail": "Not Found"}))) as served:
        code = main(["verify", saved(tmp_path / "r.jsonl", episode), "--base-url", served.url])

    assert code == 1
    assert "SGLangNotFoundError" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "complaint"),
    [("", "holds no records"), ('{"format": "other"}\n', "not a record"), ("{", "line 1"), (None, "No such file")],
)
def test_a_file_that_cannot_be_read_is_bad_input(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, complaint: str
) -> None:
    path = tmp_path / "r.jsonl"
    if content is not None:
        path.write_text(content)

    code = main(["verify", str(path), "--base-url", url])

    assert code == 2
    assert complaint in capsys.readouterr().err


def test_damage_is_found_before_anything_is_scored(
    episode: Trajectory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(episode.to_json() + "\n" + episode.to_json()[:100])

    code = main(["verify", str(path), "--base-url", "http://127.0.0.1:9"])

    shown = capsys.readouterr()
    assert code == 2
    assert "line 2" in shown.err
    assert shown.out == ""


def test_bad_arguments_and_servers_out_of_reach_are_told(
    url: str, episode: Trajectory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = saved(tmp_path / "r.jsonl", episode)

    assert main(["verify", file, "--base-url", url, "--tolerance", "0"]) == 2
    assert main(["verify", file, "--base-url", "http://127.0.0.1:9"]) == 2
    assert "tolerance must be" in capsys.readouterr().err


def test_a_folder_of_the_servers_without_a_tokenizer_only_costs_the_text(
    episode: Trajectory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = ScriptedEngine(lambda _: Refusal(status=404), model_info={"tokenizer_path": str(tmp_path)})
    with Served(engine) as served:
        code = main(["verify", saved(tmp_path / "r.jsonl", episode), "--base-url", served.url])

    shown = capsys.readouterr()
    assert code == 1
    assert "no text is shown" in shown.err
    assert "turn 1: unscored" in shown.out
