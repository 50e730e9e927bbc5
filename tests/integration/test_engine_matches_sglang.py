"""The embedded engine answers what the real server answers: the same requests to both, on the same checkpoint.

Compared whole: status, media type and JSON body, floats within 1e-3. Left out: ids, clocks, and keys that only the
server has. Where what is sampled is a matter of chance, distributions are compared instead.
These tests flush the server's cache, pause it and abort what it generates: give them a server that nobody else uses.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from strands_sglang.engine import EngineTransport, TinyEngine
from strands_sglang.errors import SGLangConfigError

from .watching import PATIENCE, Load, load_of, until, until_load

TOLERANCE = 1e-3
# No second best token comes closer to the best one than 0.08 in any answer compared here, and no two of those that are
# listed by rank closer than 0.0018: a hundred times what the arithmetic of two machines makes of the same model.
GREEDY: dict[str, Any] = {"temperature": 0, "max_new_tokens": 8}
ENDLESS: dict[str, Any] = {"temperature": 0, "ignore_eos": True, "max_new_tokens": 1200}
VOLATILE = {"id", "e2e_latency", "response_sent_to_client_ts"}


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Both engines, behind one client each."""

    tiny: httpx.AsyncClient
    real: httpx.AsyncClient
    eos: int
    context: int
    prompt: list[int]

    async def each(self, call: Callable[[httpx.AsyncClient], Awaitable[Any]]) -> tuple[Any, Any]:
        """Do the same with both, one after the other."""
        return await call(self.tiny), await call(self.real)

    async def post(self, path: str, body: Any) -> tuple[httpx.Response, httpx.Response]:
        tiny, real = await self.each(lambda client: client.post(path, json=body))
        return tiny, real

    async def generate(self, **body: Any) -> tuple[httpx.Response, httpx.Response]:
        return await self.post("/generate", {"input_ids": self.prompt, **body})


@pytest.fixture(scope="module")
def embedded(served_model: str) -> TinyEngine:
    """The embedded engine with the checkpoint that the server has."""
    if not Path(served_model).is_dir():
        pytest.skip(f"the server's model {served_model!r} is not a folder that can be read here")
    try:
        return TinyEngine(served_model, seed=0)
    except SGLangConfigError as error:
        pytest.skip(f"the embedded engine does not run the server's model: {error}")


@pytest.fixture
async def pair(sglang_url: str, embedded: TinyEngine) -> AsyncIterator[Pair]:
    """Both engines, with nothing in their caches."""
    text = "<|im_start|>user\nWhat is 25 * 17?<|im_end|>\n<|im_start|>assistant\n"
    one_each = httpx.Limits(max_keepalive_connections=0)  # the server breaks connections after some refusals
    async with (
        httpx.AsyncClient(transport=EngineTransport(embedded), base_url="http://engine", timeout=PATIENCE) as tiny,
        httpx.AsyncClient(base_url=sglang_url, timeout=PATIENCE, limits=one_each) as real,
    ):
        core = embedded._core
        pair = Pair(
            tiny=tiny,
            real=real,
            eos=min(core.config.stop_tokens),
            context=core.config.context,
            prompt=core.codec.encode(text),
        )
        await pair.each(empty_cache)
        yield pair


async def empty_cache(client: httpx.AsyncClient) -> None:
    """Empty a cache; the server refuses while it is busy with what an earlier test left behind."""

    async def emptied() -> bool:
        return (await client.post("/flush_cache")).status_code == 200

    await until(emptied)


@pytest.fixture
async def disturbed(pair: Pair) -> AsyncIterator[Pair]:
    """Both engines, for a test that may leave them paused or generating."""
    yield pair
    await pair.post("/continue_generation", {})
    await pair.post("/abort_request", {"abort_all": True})


def comparable(value: Any) -> Any:
    """Return a body without what differs from one request to the next."""
    if isinstance(value, dict):
        return {key: comparable(each) for key, each in value.items() if key not in VOLATILE}
    return [comparable(each) for each in value] if isinstance(value, list) else value


def differences(tiny: Any, real: Any, where: str = "") -> list[str]:
    """Return the places where two bodies differ; floats may by the tolerance."""
    if isinstance(tiny, dict) and isinstance(real, dict) and tiny.keys() == real.keys():
        return [each for key in tiny for each in differences(tiny[key], real[key], f"{where}.{key}")]
    if isinstance(tiny, list) and isinstance(real, list) and len(tiny) == len(real):
        pairs = enumerate(zip(tiny, real, strict=True))
        return [each for at, (a, b) in pairs for each in differences(a, b, f"{where}[{at}]")]
    if isinstance(tiny, float) and isinstance(real, float) and abs(tiny - real) <= TOLERANCE:
        return []
    return [] if tiny == real and type(tiny) is type(real) else [f"{where}: {tiny!r} is not {real!r}"]


def assert_same(answers: tuple[httpx.Response, httpx.Response]) -> None:
    tiny, real = answers
    assert tiny.status_code == real.status_code, (tiny.text, real.text)
    assert tiny.headers.get("content-type") == real.headers.get("content-type")
    assert differences(comparable(tiny.json()), comparable(real.json())) == []


def chunks_of(reply: httpx.Response) -> list[Any]:
    *chunks, done, end = reply.text.split("\n\n")
    assert (done, end) == ("data: [DONE]", "")
    return [orjson.loads(chunk.removeprefix("data: ")) for chunk in chunks]


# --- what is generated -----------------------------------------------------------------------------------

GENERATIONS: dict[str, dict[str, Any]] = {
    "greedy": {"return_logprob": True},
    "no logprobs": {},
    "whole prompt scored": {"return_logprob": True, "logprob_start_len": 0},
    "prompt scored from its third token": {"return_logprob": True, "logprob_start_len": 3},
    "start len without logprobs": {"logprob_start_len": 3},
    "top logprobs": {"return_logprob": True, "logprob_start_len": 2, "top_logprobs_num": 3},
    "chosen tokens": {"return_logprob": True, "logprob_start_len": 2, "token_ids_logprob": [7, 8]},
    "no chosen tokens": {"return_logprob": True, "token_ids_logprob": []},
    "text and prompt given back": {
        "return_logprob": True,
        "return_text_in_logprobs": True,
        "return_prompt_token_ids": True,
    },
    "prefill alone": {
        "return_logprob": True,
        "logprob_start_len": 0,
        "top_logprobs_num": 2,
        "sampling_params": {"max_new_tokens": 0},
    },
    "top_k 1 is greedy": {"return_logprob": True, "sampling_params": {**GREEDY, "temperature": 0.7, "top_k": 1}},
    "truncated greedy": {
        "return_logprob": True,
        "sampling_params": {**GREEDY, "top_p": 0.5, "top_k": 5, "min_p": 0.1},
    },
    # Both kinds of penalty together would be a matter of chance: their order differs between starts of this server.
    "additive penalties and bias": {
        "return_logprob": True,
        "sampling_params": {
            **GREEDY,
            "frequency_penalty": 1.0,
            "presence_penalty": 0.5,
            "logit_bias": {"300": 14.0},
        },
    },
    "repetition penalty and bias": {
        "return_logprob": True,
        "sampling_params": {**GREEDY, "repetition_penalty": 1.3, "logit_bias": {"300": 14.0}},
    },
    "ids win over text": {"text": "2 + 2", "return_prompt_token_ids": True},
    "text alone": {"input_ids": None, "text": "2 + 2", "return_prompt_token_ids": True},
    "ignored fields": {"foo": 1, "return_routed_experts": True, "sampling_params": {**GREEDY, "n": 0}},
}


@pytest.mark.parametrize("name", GENERATIONS)
async def test_generations_are_the_same(pair: Pair, name: str) -> None:
    body = {key: value for key, value in GENERATIONS[name].items() if value is not None}
    answers = await pair.generate(**{"sampling_params": GREEDY, **body})
    if name == "text alone":
        answers = await pair.post("/generate", {"sampling_params": GREEDY, **body})

    assert answers[0].status_code == 200
    assert_same(answers)


@pytest.mark.parametrize("from_end", [-1, 0, 1])
async def test_the_last_starts_of_prompt_logprobs_are_the_same(pair: Pair, from_end: int) -> None:
    start = len(pair.prompt) + from_end
    answers = await pair.generate(sampling_params=GREEDY, return_logprob=True, logprob_start_len=start)

    assert answers[0].status_code == (400 if from_end > 0 else 200)
    assert_same(answers)


async def test_the_tempered_distribution_is_the_same_over_the_whole_vocabulary(pair: Pair) -> None:
    sampling = {"temperature": 1.7, "top_p": 0.9, "top_k": 40, "min_p": 0.02, "max_new_tokens": 1}
    tiny, real = await pair.generate(sampling_params=sampling, return_logprob=True, top_logprobs_num=1024)

    rows = [reply.json()["meta_info"]["output_top_logprobs"][0] for reply in (tiny, real)]
    by_token = [{token: logprob for logprob, token, _ in row} for row in rows]
    assert len(by_token[0]) == 1024
    assert by_token[0] == pytest.approx(by_token[1], abs=TOLERANCE)


async def test_what_the_embedded_engine_samples_is_scored_alike_by_the_server(
    pair: Pair, measure: Callable[[str, str], None]
) -> None:
    sampling = {"temperature": 1.0, "max_new_tokens": 40, "ignore_eos": True}
    sampled = (
        await pair.tiny.post(
            "/generate", json={"input_ids": pair.prompt, "sampling_params": sampling, "return_logprob": True}
        )
    ).json()

    score = {"max_new_tokens": 0}
    ids = [*pair.prompt, *sampled["output_ids"]]
    body = {"sampling_params": score, "return_logprob": True, "logprob_start_len": len(pair.prompt) - 1}
    scored = (await pair.real.post("/generate", json={"input_ids": ids, **body})).json()

    own = [triple[0] for triple in sampled["meta_info"]["output_token_logprobs"]]
    theirs = [triple[0] for triple in scored["meta_info"]["input_token_logprobs"][1:]]
    largest = max(abs(a - b) for a, b in zip(own, theirs, strict=True))
    measure("largest logprob difference of the embedded engine", f"{largest:.1e}")
    assert largest < TOLERANCE


async def test_a_conversation_finds_as_much_in_the_cache(pair: Pair) -> None:
    found: list[list[int]] = []
    for client in (pair.tiny, pair.real):
        cached, ids = [], pair.prompt
        for start in (-1, -1, 4, -1):
            body = {"sampling_params": GREEDY, "return_logprob": True, "logprob_start_len": start}
            answer = (await client.post("/generate", json={"input_ids": ids, **body})).json()
            cached.append(answer["meta_info"]["cached_tokens"])
            ids = [*ids, *answer["output_ids"], 10, 11] if start == 4 else ids
        found.append(cached)

    assert found[0] == found[1]
    assert found[0][1] == len(pair.prompt) - 1


# --- how it stops ----------------------------------------------------------------------------------------


def stops(eos: int) -> dict[str, dict[str, Any]]:
    forced = {**GREEDY, "logit_bias": {str(eos): 100.0}}
    longer = {**GREEDY, "max_new_tokens": 30}
    return {
        "eos": forced,
        "eos untrimmed": {**forced, "no_stop_trim": True, "skip_special_tokens": False},
        "eos put off": {**forced, "min_new_tokens": 4},
        "eos ignored": {**forced, "ignore_eos": True, "stop_token_ids": [eos]},
        "stop token": {**longer, "stop_token_ids": [261, 278, 257]},
        "stop text": {**longer, "stop": ["name"]},
        "stop text untrimmed": {**longer, "stop": ["name"], "no_stop_trim": True},
        "stop text among several": {**longer, "stop": ["never", "call", "name"]},
        "stop text that is a special token": {**forced, "stop": "<|im_end|>"},
        "stop pattern": {**longer, "stop_regex": "[a-z]{3}"},
        "length": {**GREEDY, "max_new_tokens": 5},
    }


@pytest.mark.parametrize("name", stops(0))
async def test_endings_are_the_same(pair: Pair, name: str) -> None:
    answers = await pair.generate(sampling_params=stops(pair.eos)[name], return_logprob=True)

    assert answers[0].status_code == 200
    assert_same(answers)


async def test_a_null_budget_ends_at_the_same_place(pair: Pair) -> None:
    sampling = {"temperature": 0, "ignore_eos": True, "max_new_tokens": None}
    tiny, real = await pair.generate(input_ids=[5] * (pair.context - 12), sampling_params=sampling)

    finishes = [reply.json()["meta_info"]["finish_reason"] for reply in (tiny, real)]
    assert finishes[0] == finishes[1] == {"type": "length", "length": 10}


# --- what is refused -------------------------------------------------------------------------------------


def refusals(context: int) -> dict[str, dict[str, Any]]:
    sampling: dict[str, dict[str, Any]] = {
        "temperature": {"temperature": -1},
        "top_p": {"top_p": 0},
        "top_k": {"top_k": 0},
        "min_p": {"min_p": 1.5},
        "frequency_penalty": {"frequency_penalty": 3},
        "presence_penalty": {"presence_penalty": -3},
        "repetition_penalty": {"repetition_penalty": 0},
        "max_new_tokens": {"max_new_tokens": -1},
        "min_new_tokens": {"min_new_tokens": -1},
        "min over max": {"min_new_tokens": 5, "max_new_tokens": 3},
        "too many stops": {"stop": ["x"] * 33},
        "bias key": {"logit_bias": {"5000": 1}},
        "bias key not a number": {"logit_bias": {"x": 1}},
        "unknown field": {"bogus": 1},
        "text for a number": {"max_new_tokens": "abc"},
        "float for a whole": {"max_new_tokens": 1.0},
        "flag for a number": {"temperature": True},
        "number for a flag": {"ignore_eos": 1},
        "number for a stop": {"stop": 3},
        "number in stops": {"stop": [3]},
        "number for ids": {"stop_token_ids": 5},
        "object for a schema": {"json_schema": {}},
    }
    return {
        "no input": {"input_ids": None},
        "empty input": {"input_ids": []},
        "input too long": {"input_ids": [5] * (context + 10)},
        "input and budget too long": {"input_ids": [5] * (context - 100), "sampling_params": {"max_new_tokens": 200}},
        "no room to generate": {"input_ids": [5] * (context - 4), "sampling_params": {"max_new_tokens": 3}},
        "token to score": {"token_ids_logprob": [5000]},
        **{name: {"sampling_params": params} for name, params in sampling.items()},
    }


@pytest.mark.parametrize("name", refusals(2048))
async def test_refusals_are_the_same_to_the_letter(pair: Pair, name: str) -> None:
    body = refusals(pair.context)[name]
    request = {"input_ids": pair.prompt, **body}

    answers = await pair.post("/generate", {key: value for key, value in request.items() if value is not None})

    assert answers[0].status_code == 400
    assert_same(answers)


BODIES: list[dict[str, Any]] = [
    {"input_ids": [5, "a"]},
    {"input_ids": [5.5]},
    {"input_ids": "abc"},
    {"stream": None},
    {"stream": "x"},
    {"return_prompt_token_ids": None},
    {"rid": 5},
    {"token_ids_logprob": ["a"]},
    {"top_logprobs_num": "x"},
    {"sampling_params": "x"},
]


@pytest.mark.parametrize("body", BODIES, ids=str)
async def test_bodies_of_wrong_types_are_refused_in_the_same_shape(pair: Pair, body: dict[str, Any]) -> None:
    tiny, real = await pair.generate(**body)

    assert tiny.status_code == real.status_code == 400
    assert {**tiny.json(), "message": ""} == {**real.json(), "message": ""}


@pytest.mark.parametrize("content", [b"", b"{", b"[1]"])
async def test_what_is_no_json_object_is_refused_in_the_same_shape(pair: Pair, content: bytes) -> None:
    headers = {"content-type": "application/json"}
    tiny, real = await pair.each(lambda client: client.post("/generate", content=content, headers=headers))

    assert tiny.status_code == real.status_code == 400
    assert {**tiny.json(), "message": ""} == {**real.json(), "message": ""}


# --- streams ---------------------------------------------------------------------------------------------

STREAMS: dict[str, dict[str, Any]] = {
    "cumulative": {"return_logprob": True, "logprob_start_len": 5, "return_prompt_token_ids": True},
    "with an interval": {"sampling_params": {**GREEDY, "stream_interval": 3}},
    "interval zero": {"sampling_params": {**GREEDY, "stream_interval": 0}},
    "held back by a stop text": {"sampling_params": {**GREEDY, "max_new_tokens": 30, "stop": ["name"]}},
    "refused at once": {"input_ids": []},
    "refused sampling": {"sampling_params": {"temperature": -1}},
}


@pytest.mark.parametrize("name", STREAMS)
async def test_streams_are_the_same_chunk_by_chunk(pair: Pair, name: str) -> None:
    tiny, real = await pair.generate(**{"sampling_params": GREEDY, **STREAMS[name]}, stream=True)

    assert tiny.status_code == real.status_code == 200
    assert tiny.headers["content-type"] == real.headers["content-type"]
    ours, theirs = chunks_of(tiny), chunks_of(real)
    # A server that is busy sends what two steps gave in one chunk, which is that of the second one.
    told = {tokens_of(chunk) for chunk in theirs}
    assert differences(comparable([chunk for chunk in ours if tokens_of(chunk) in told]), comparable(theirs)) == []
    assert tokens_of(ours[-1]) == tokens_of(theirs[-1])


def tokens_of(chunk: dict[str, Any]) -> int | None:
    """Return how many tokens were sampled when a chunk was made; None for a refusal."""
    tokens: int | None = chunk.get("meta_info", {}).get("completion_tokens")
    return tokens


async def test_a_stream_refused_by_the_scheduler_ends_with_the_same_abort(pair: Pair) -> None:
    body = {"input_ids": [5] * (pair.context - 4), "sampling_params": {"max_new_tokens": 3}, "stream": True}
    tiny, real = await pair.generate(**body)

    finishes = [chunks_of(reply)[-1]["meta_info"]["finish_reason"] for reply in (tiny, real)]
    assert finishes[0] == finishes[1]


# --- aborts, pauses, versions ----------------------------------------------------------------------------


async def begin(client: httpx.AsyncClient, disturbed: Pair, rid: str, **body: Any) -> asyncio.Task[httpx.Response]:
    """Start a generation without end, and return when it has sampled something."""
    request = {"input_ids": disturbed.prompt, "sampling_params": ENDLESS, "return_logprob": True, "rid": rid, **body}
    task = asyncio.create_task(client.post("/generate", json=request))
    await until_load(lambda: load_of(client), lambda load: load.running == 1)
    await in_company(client, disturbed)
    return task


async def in_company(client: httpx.AsyncClient, disturbed: Pair) -> None:
    """Generate a few tokens; each step samples for all that run, so every other generation goes on by as many."""
    body = {"input_ids": disturbed.prompt, "sampling_params": {"temperature": 0, "max_new_tokens": 4}}
    (await client.post("/generate", json=body)).raise_for_status()


def ending(reply: httpx.Response) -> dict[str, Any]:
    """Return what is comparable of a generation that was ended at some moment."""
    body = reply.json()
    meta, count = body["meta_info"], len(body["output_ids"])
    assert len(meta["output_token_logprobs"]) == meta["output_token_logprobs_length"] == count
    assert meta["completion_tokens"] == count
    spans = [(span["version"], span["end"] > span["start"]) for span in meta["weight_versions"]]
    kept = ("finish_reason", "weight_version", "num_retractions", "prompt_tokens")
    return {
        "keys": sorted(meta.keys() - VOLATILE),
        "some": count > 0,
        "spans": spans,
        "whole": meta["weight_versions"][-1]["end"] == count,
        **{key: meta[key] for key in kept if key in meta},
    }


async def test_an_aborted_generation_ends_alike(disturbed: Pair) -> None:
    async def run(client: httpx.AsyncClient) -> Any:
        task = await begin(client, disturbed, "abort-me")
        said = await client.post("/abort_request", json={"rid": "abort-me"})
        return said.status_code, said.content, ending(await task)

    tiny, real = await disturbed.each(run)

    assert tiny == real
    assert tiny[2]["finish_reason"]["type"] == "abort"
    assert tiny[2]["some"]


async def test_an_aborted_stream_ends_alike(disturbed: Pair) -> None:
    async def run(client: httpx.AsyncClient) -> Any:
        task = await begin(client, disturbed, "abort-me", stream=True)
        await client.post("/abort_request", json={"rid": "abort-me"})
        return chunks_of(await task)[-1]["meta_info"]["finish_reason"]

    tiny, real = await disturbed.each(run)

    assert tiny == real
    assert tiny["type"] == "abort"


async def test_a_generation_aborted_in_the_queue_ends_alike(disturbed: Pair) -> None:
    async def run(client: httpx.AsyncClient) -> Any:
        running = (await client.get("/server_info")).json()["max_running_requests"]
        request = {"input_ids": disturbed.prompt, "sampling_params": ENDLESS, "return_logprob": True}

        def post(**body: Any) -> asyncio.Task[httpx.Response]:
            return asyncio.create_task(client.post("/generate", json={**request, **body}))

        tasks = [post() for _ in range(running)]
        await until_load(lambda: load_of(client), lambda load: load == Load(running=running, waiting=0))
        queued = post(rid="queued")
        await until_load(lambda: load_of(client), lambda load: load == Load(running=running, waiting=1))
        await client.post("/abort_request", json={"rid": "queued"})
        said = ending(await queued)
        await client.post("/abort_request", json={"abort_all": True})
        await asyncio.gather(*tasks)
        return said

    tiny, real = await disturbed.each(run)

    assert tiny == real
    assert tiny["finish_reason"] == {"type": "abort", "message": "Abort in waiting queue"}


async def test_a_running_id_is_refused_alike(disturbed: Pair) -> None:
    async def run(client: httpx.AsyncClient) -> Any:
        task = await begin(client, disturbed, "twice")
        second = await client.post("/generate", json={"input_ids": disturbed.prompt, "rid": "twice"})
        await client.post("/abort_request", json={"rid": "twice"})
        await task
        return second.status_code, second.json()

    tiny, real = await disturbed.each(run)

    assert tiny == real
    assert tiny[0] == 400


@pytest.mark.parametrize("mode", ["abort", "in_place", "retract"])
async def test_a_pause_and_a_new_version_leave_the_same_traces(disturbed: Pair, mode: str) -> None:
    async def run(client: httpx.AsyncClient) -> Any:
        before = (await client.get("/model_info")).json()["weight_version"]
        said: list[Any] = []

        async def call(path: str, **body: Any) -> None:
            reply = await client.post(path, json=body)
            said.append((reply.status_code, reply.text))

        await call("/update_weight_version", new_version="first")
        task = await begin(client, disturbed, "held")
        await call("/pause_generation", mode=mode)
        await call("/flush_cache")
        await call("/update_weight_version", new_version="second", abort_all_requests=False)
        await call("/continue_generation")
        await in_company(client, disturbed)
        await call("/abort_request", rid="held")
        ended = ending(await task)
        await client.post("/update_weight_version", json={"new_version": before})
        return said, ended

    tiny, real = await disturbed.each(run)

    assert tiny[0] == real[0]
    if mode == "abort":
        # The answer is made as the version changes; which of the two it names is a matter of timing.
        assert tiny[1]["finish_reason"] == real[1]["finish_reason"]
    else:
        assert tiny[1]["spans"] == real[1]["spans"] == [("first", True), ("second", True)]
        assert tiny[1]["keys"] == real[1]["keys"]
        assert tiny[1]["num_retractions"] == real[1]["num_retractions"]


# --- what they say about themselves ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/health", None),
        ("GET", "/health_generate", None),
        ("GET", "/ping", None),
        ("GET", "/nowhere", None),
        ("GET", "/generate", None),
        ("GET", "/abort_request", None),
        ("POST", "/model_info", {}),
        ("POST", "/abort_request", {}),
        ("POST", "/abort_request", {"rid": "nobody"}),
        ("POST", "/flush_cache", None),
        ("GET", "/flush_cache", None),
        ("POST", "/continue_generation", {}),
    ],
)
async def test_control_endpoints_answer_the_same_bytes(pair: Pair, method: str, path: str, body: Any) -> None:
    tiny, real = await pair.each(lambda client: client.request(method, path, json=body))

    assert (tiny.status_code, tiny.text) == (real.status_code, real.text)
    assert tiny.headers.get("content-type") == real.headers.get("content-type")


@pytest.mark.parametrize(
    ("path", "own"),
    [
        ("/model_info", set()),
        ("/get_model_info", set()),
        ("/server_info", {"frontend", "context_length", "internal_states"}),
        ("/get_server_info", {"frontend", "context_length", "internal_states"}),
        ("/v1/models", {"data"}),
    ],
)
async def test_what_is_said_about_model_and_server_is_what_the_server_says(
    pair: Pair, path: str, own: set[str]
) -> None:
    """Every key there is exists on the server; the values are equal but for those of `own`."""
    tiny, real = await pair.each(lambda client: client.get(path))
    ours, theirs = tiny.json(), real.json()

    assert ours.keys() <= theirs.keys()
    assert {key: ours[key] for key in ours.keys() - own} == {key: theirs[key] for key in ours.keys() - own}


async def test_loads_have_keys_of_the_server(pair: Pair) -> None:
    tiny, real = await pair.each(lambda client: client.get("/v1/loads"))
    ours, theirs = tiny.json(), real.json()

    assert ours.keys() <= theirs.keys()
    assert ours["loads"][0].keys() <= theirs["loads"][0].keys()
    assert ours["loads"][0]["queues"].keys() <= theirs["loads"][0]["queues"].keys()
