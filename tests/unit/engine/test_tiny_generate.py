"""What `TinyEngine` answers to `/generate`: ids, log-probabilities, stops, text, streams."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import httpx
import numpy as np
import orjson
import pytest

from strands_sglang.engine import TinyEngine
from strands_sglang.engine.tiny.checkpoint import SHIPPED, Array, Checkpoint, load
from strands_sglang.engine.tiny.runner import Part

from . import reference

PROMPT = [1016, 295, 198, 5, 77, 300, 4, 4, 900, 17, 1018, 198]
EOS = min(load(SHIPPED).config.stop_tokens)
X = load(SHIPPED).codec.encode("x")[0]
FORCE_EOS = {"logit_bias": {str(EOS): 100.0}, "ignore_eos": False}
FORCE_X = {"logit_bias": {str(X): 100.0}, "ignore_eos": False}
EXACT = 5e-4


async def ask(client: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    # What these weights say is no part of these tests: they go on through a stop token unless it is their subject.
    sampling = {"temperature": 0, "max_new_tokens": 6, "ignore_eos": True, **body.pop("sampling", {})}
    reply = await client.post("/generate", json={"input_ids": PROMPT, "sampling_params": sampling, **body})
    assert reply.status_code == 200, reply.text
    answer: dict[str, Any] = reply.json()
    return answer


def values(triples: list[list[Any]]) -> list[Any]:
    return [triple[0] for triple in triples]


def expected_logprobs(checkpoint: Checkpoint, ids: list[int], temperature: float = 1.0) -> list[float]:
    """The log-probability of every id but the first, from the slow reference."""
    rows = reference.log_softmax(reference.logits(checkpoint, ids) / temperature)
    return [float(rows[at, token]) for at, token in enumerate(ids[1:])]


async def test_greedy_ids_and_logprobs_are_those_of_the_slow_reference(
    client: httpx.AsyncClient, checkpoint: Checkpoint
) -> None:
    answer = await ask(client, return_logprob=True)

    ids = [*PROMPT, *answer["output_ids"]]
    rows = reference.logits(checkpoint, ids)
    begin = len(PROMPT) - 1
    assert answer["output_ids"] == np.argmax(rows[begin:-1], axis=-1).tolist()
    assert values(answer["meta_info"]["output_token_logprobs"]) == pytest.approx(
        expected_logprobs(checkpoint, ids)[begin:], abs=EXACT
    )


async def test_sampled_logprobs_are_tempered_and_taken_before_truncation(
    client: httpx.AsyncClient, checkpoint: Checkpoint
) -> None:
    answer = await ask(
        client, return_logprob=True, sampling={"temperature": 1.7, "top_k": 5, "top_p": 0.8, "min_p": 0.05}
    )

    expected = expected_logprobs(checkpoint, [*PROMPT, *answer["output_ids"]], temperature=1.7)
    got = values(answer["meta_info"]["output_token_logprobs"])
    assert got == pytest.approx(expected[len(PROMPT) - 1 :], abs=EXACT)


@pytest.mark.parametrize("start", [0, 3, len(PROMPT) - 1, len(PROMPT), -1])
async def test_prompt_logprobs_begin_with_null_and_are_those_of_temperature_one(
    client: httpx.AsyncClient, checkpoint: Checkpoint, start: int
) -> None:
    answer = await ask(client, return_logprob=True, logprob_start_len=start, sampling={"temperature": 2.0})

    got = answer["meta_info"]["input_token_logprobs"]
    begin = len(PROMPT) if start == -1 else start
    assert [triple[1] for triple in got] == PROMPT[begin:]
    assert values(got[:1]) == [None] * min(1, len(got))
    assert values(got[1:]) == pytest.approx(expected_logprobs(checkpoint, PROMPT)[begin:], abs=EXACT)
    assert answer["meta_info"]["cached_tokens"] <= begin


async def test_a_prompt_can_be_scored_without_generating(client: httpx.AsyncClient, checkpoint: Checkpoint) -> None:
    answer = await ask(client, return_logprob=True, logprob_start_len=0, sampling={"max_new_tokens": 0})

    meta = answer["meta_info"]
    assert answer["output_ids"] == meta["output_token_logprobs"] == []
    assert meta["finish_reason"] == {"type": "length", "length": 0}
    assert values(meta["input_token_logprobs"])[1:] == pytest.approx(expected_logprobs(checkpoint, PROMPT), abs=EXACT)


async def test_prompt_logprobs_do_not_depend_on_where_a_long_prompt_is_cut(client: httpx.AsyncClient) -> None:
    ids = [5 + at * 7 % 900 for at in range(600)]

    whole = await ask(client, input_ids=ids, return_logprob=True, logprob_start_len=0)
    tail = await ask(client, input_ids=ids, return_logprob=True, logprob_start_len=400)

    got = values(tail["meta_info"]["input_token_logprobs"])
    assert len(whole["meta_info"]["input_token_logprobs"]) == 600
    assert got[1:] == pytest.approx(values(whole["meta_info"]["input_token_logprobs"])[401:], abs=EXACT)


async def test_top_and_wanted_logprobs_cover_the_same_positions(client: httpx.AsyncClient) -> None:
    answer = await ask(client, return_logprob=True, logprob_start_len=4, top_logprobs_num=2, token_ids_logprob=[7, 8])

    meta = answer["meta_info"]
    assert meta["input_top_logprobs"][0] is None
    assert meta["input_token_ids_logprobs"][0] is None
    assert len(meta["input_top_logprobs"]) == len(meta["input_token_ids_logprobs"]) == len(PROMPT) - 4
    for best, chosen in zip(meta["output_top_logprobs"], meta["output_token_logprobs"], strict=True):
        assert best[0] == chosen  # greedy
        assert best[0][0] >= best[1][0]
    assert [[triple[1] for triple in row] for row in meta["output_token_ids_logprobs"]] == [[7, 8]] * 6


async def test_text_in_logprobs_and_the_prompt_are_given_on_request(client: httpx.AsyncClient) -> None:
    answer = await ask(client, return_logprob=True, return_text_in_logprobs=True, return_prompt_token_ids=True)

    texts = [triple[2] for triple in answer["meta_info"]["output_token_logprobs"]]
    assert "".join(texts) == answer["text"]
    assert answer["prompt_token_ids"] == PROMPT


async def test_a_text_prompt_is_encoded_and_ids_win_over_text(client: httpx.AsyncClient) -> None:
    alone = (await client.post("/generate", json={"text": "2 + 3", "return_prompt_token_ids": True})).json()
    both = await ask(client, text="2 + 3", return_prompt_token_ids=True)

    assert alone["prompt_token_ids"] == load(SHIPPED).codec.encode("2 + 3")
    assert both["prompt_token_ids"] == PROMPT


async def test_the_stop_token_stays_in_the_ids_and_leaves_the_text(client: httpx.AsyncClient) -> None:
    answer = await ask(client, return_logprob=True, sampling=FORCE_EOS)

    assert (answer["output_ids"], answer["text"]) == ([EOS], "")
    assert answer["meta_info"]["finish_reason"] == {"type": "stop", "matched": EOS}
    assert values(answer["meta_info"]["output_token_logprobs"]) == pytest.approx([0.0], abs=1e-6)


async def test_an_untrimmed_stop_token_is_shown_with_special_tokens(client: httpx.AsyncClient) -> None:
    shown = {**FORCE_EOS, "no_stop_trim": True, "skip_special_tokens": False}

    assert (await ask(client, sampling=shown))["text"] == "<|im_end|>"


async def test_ignore_eos_goes_on_through_every_stop_token(client: httpx.AsyncClient) -> None:
    answer = await ask(client, sampling={**FORCE_EOS, "ignore_eos": True, "stop_token_ids": [EOS]})

    assert answer["output_ids"] == [EOS] * 6
    assert answer["meta_info"]["finish_reason"] == {"type": "length", "length": 6}


async def test_min_new_tokens_puts_the_stop_off(client: httpx.AsyncClient) -> None:
    answer = await ask(client, sampling={**FORCE_EOS, "min_new_tokens": 3})

    assert answer["output_ids"].index(EOS) == 3


async def test_a_stop_token_of_the_request_ends_it(client: httpx.AsyncClient) -> None:
    answer = await ask(client, sampling={**FORCE_X, "stop_token_ids": [X]})

    assert (answer["output_ids"], answer["text"]) == ([X], "")
    assert answer["meta_info"]["finish_reason"] == {"type": "stop", "matched": X}


@pytest.mark.parametrize(("untrimmed", "text"), [(False, ""), (True, "xx")])
async def test_a_stop_text_ends_it_and_is_cut_from_the_text_alone(
    client: httpx.AsyncClient, untrimmed: bool, text: str
) -> None:
    answer = await ask(client, sampling={**FORCE_X, "stop": ["never", "xx"], "no_stop_trim": untrimmed})

    assert (answer["output_ids"], answer["text"]) == ([X, X], text)
    assert answer["meta_info"]["finish_reason"] == {"type": "stop", "matched": "xx"}


async def test_a_special_token_can_be_a_stop_text(client: httpx.AsyncClient) -> None:
    answer = await ask(client, sampling={**FORCE_EOS, "stop": "<|im_end|>", "ignore_eos": True})

    assert answer["meta_info"]["finish_reason"] == {"type": "stop", "matched": "<|im_end|>"}


async def test_a_stop_pattern_ends_it_and_is_named(client: httpx.AsyncClient) -> None:
    answer = await ask(client, sampling={**FORCE_X, "stop_regex": "[a-z]{3}"})

    assert (answer["output_ids"], answer["text"]) == ([X] * 3, "xxx")
    assert answer["meta_info"]["finish_reason"] == {"type": "stop", "matched": "[a-z]{3}"}


async def test_null_budget_goes_up_to_the_context(client: httpx.AsyncClient) -> None:
    answer = await ask(client, input_ids=[5] * 2038, sampling={"max_new_tokens": None, "ignore_eos": True})

    assert answer["meta_info"]["finish_reason"] == {"type": "length", "length": 2048 - 2038 - 2}


async def test_a_seed_repeats_the_draw(client: httpx.AsyncClient) -> None:
    sampling = {"temperature": 3.0, "max_new_tokens": 12}

    first, again, other = [await ask(client, sampling={**sampling, "sampling_seed": seed}) for seed in (1, 1, 2)]

    assert first["output_ids"] == again["output_ids"] != other["output_ids"]


async def events(client: httpx.AsyncClient, **body: Any) -> list[Any]:
    request = {"input_ids": PROMPT, "stream": True, **body}
    async with client.stream("POST", "/generate", json=request) as reply:
        assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
        lines = [line.removeprefix("data: ") async for line in reply.aiter_lines() if line]
    assert lines.pop() == "[DONE]"
    return [orjson.loads(line) for line in lines]


async def test_a_stream_is_cumulative_with_one_chunk_per_token(client: httpx.AsyncClient) -> None:
    sampling = {"temperature": 0, "max_new_tokens": 6, "ignore_eos": True}
    whole = await ask(client, return_logprob=True, logprob_start_len=10)

    chunks = await events(client, sampling_params=sampling, return_logprob=True, logprob_start_len=10)

    assert [chunk["output_ids"] for chunk in chunks] == [whole["output_ids"][:n] for n in range(1, 7)]
    assert [chunk["meta_info"]["finish_reason"] for chunk in chunks[:-1]] == [None] * 5
    assert chunks[-1]["text"] == whole["text"]
    assert ["weight_versions" in chunk["meta_info"] for chunk in chunks] == [False] * 5 + [True]
    for chunk in chunks:
        assert len(chunk["meta_info"]["input_token_logprobs"]) == 2
        assert len(chunk["meta_info"]["output_token_logprobs"]) == len(chunk["output_ids"])


async def test_the_stream_interval_counts_after_the_first_token(client: httpx.AsyncClient) -> None:
    chunks = await events(
        client, sampling_params={"temperature": 0, "max_new_tokens": 6, "ignore_eos": True, "stream_interval": 3}
    )

    assert [len(chunk["output_ids"]) for chunk in chunks] == [1, 4, 6]


async def test_a_chunk_that_could_begin_a_stop_text_is_held_back(client: httpx.AsyncClient) -> None:
    sampling = {"temperature": 0, "max_new_tokens": 3, **FORCE_X, "stop": "xy"}

    assert [chunk["output_ids"] for chunk in await events(client, sampling_params=sampling)] == [[X] * 3]


async def test_requests_together_get_what_they_get_alone(client: httpx.AsyncClient) -> None:
    prompts = [PROMPT[:cut] for cut in (4, 6, 9, 12)]

    alone = [await ask(client, input_ids=prompt) for prompt in prompts]
    together = await asyncio.gather(*(ask(client, input_ids=prompt) for prompt in prompts * 3))

    assert [answer["output_ids"] for answer in together] == [answer["output_ids"] for answer in alone] * 3


async def test_the_event_loop_runs_while_the_model_does(
    client: httpx.AsyncClient, engine: TinyEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = engine._core.scheduler._runner
    forward, begun, go_on = runner.forward, threading.Event(), threading.Event()

    def held(parts: Sequence[Part]) -> Array:
        begun.set()
        assert go_on.wait(60), "the loop stood still while the model ran"
        return forward(parts)

    monkeypatch.setattr(runner, "forward", held)
    asked = asyncio.create_task(ask(client, sampling={"max_new_tokens": 3, "ignore_eos": True}))
    while not begun.is_set():
        await asyncio.sleep(0.001)
    # The loop is here, and the model within a step that ends only because it is.
    go_on.set()

    assert len((await asked)["output_ids"]) == 3
