"""The recipe in sglang_cpu: what it refuses, and the servers and checkpoints that it can make."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

import httpx
import pytest
from transformers import AutoTokenizer

from .conftest import StartServer
from .episodes import CUT_SHORT, TOLERANCE, Served, assert_record_is_what_went_over_the_wire, differences, episode
from .sglang_cpu import install
from .sglang_cpu.checkpoints import mixture, perturbed
from .sglang_cpu.server import ServerStartError, running_server

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

GREEDY = {"temperature": 0.0, "max_new_tokens": 300}


def test_a_folder_begun_by_somebody_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")

    with pytest.raises(install.InstallError, match="not begun by this script"):
        install.install(tmp_path)

    assert [entry.name for entry in tmp_path.iterdir()] == ["precious"]


def test_an_environment_is_whole_only_with_the_stamp_of_this_recipe(tmp_path: Path) -> None:
    python = install.python_of(tmp_path)
    python.parent.mkdir()
    python.touch()
    assert not install.is_whole(tmp_path)

    (tmp_path / install.STAMP).write_text("another recipe\n")
    assert not install.is_whole(tmp_path)

    (tmp_path / install.STAMP).write_text(install.recipe_hash() + "\n")
    assert install.is_whole(tmp_path)


def test_a_server_that_cannot_start_shows_the_end_of_its_log(tmp_path: Path) -> None:
    python = install.python_of(tmp_path)
    python.parent.mkdir()
    python.write_text("#!/bin/sh\necho cannot load $2\nexit 3\n")
    python.chmod(0o755)

    with (
        pytest.raises(ServerStartError, match=r"ended with status 3 while starting\n.*\ncannot load no-model"),
        running_server(tmp_path, Path("no-model"), (), tmp_path / "log"),
    ):
        pytest.fail("the server started")


async def test_routed_experts_and_changed_weights_are_recorded(
    start_server: StartServer, tiny_model: Path, tmp_path: Path
) -> None:
    experts = mixture(tiny_model, tmp_path / "experts")
    changed = perturbed(experts, tmp_path / "changed")
    tokenizer = cast("PreTrainedTokenizerBase", AutoTokenizer.from_pretrained(experts))
    with start_server("--enable-return-routed-experts", "--weight-version", "first", model=experts) as url:
        served = Served(url=url, tokenizer=tokenizer, tool_parser="hermes")
        async with episode(served, sampling_params=GREEDY, return_routed_experts=True) as run:
            # What these weights say is no matter, nor whether it comes to an end.
            with suppress(*CUT_SHORT):
                await run.agent.invoke_async("What is 25 * 17?")
            update = {"model_path": str(changed), "weight_version": "second"}
            httpx.post(f"{url}/update_weights_from_disk", json=update, timeout=600.0).raise_for_status()
            with suppress(*CUT_SHORT):
                await run.agent.invoke_async("What is 81 / 9?")
        rollout = run.model.rollout
        off = differences(url, rollout)

    assert_record_is_what_went_over_the_wire(rollout, run.exchanges)
    versions = [version for version, mask in zip(rollout.weight_versions, rollout.loss_mask, strict=True) if mask]
    assert versions == ["first"] * versions.count("first") + ["second"] * versions.count("second")
    assert len(set(versions)) == 2
    # The server now has the second weights: those tokens score as recorded, the first ones do not.
    assert max(value for value, version in zip(off, versions, strict=True) if version == "second") < TOLERANCE
    assert max(value for value, version in zip(off, versions, strict=True) if version == "first") > TOLERANCE
    # A row of 32-bit numbers, layers by experts used, for each token but the last, which was never fed to the model.
    config = json.loads((experts / "config.json").read_text())
    row = 4 * config["num_hidden_layers"] * config["num_experts_per_tok"]
    assert sum(len(base64.b64decode(rows)) for rows in rollout.routed_experts) == row * (len(rollout) - 1)
