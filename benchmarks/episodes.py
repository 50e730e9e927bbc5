"""A worker of the provider's benchmark: runs episodes of one variant and says what they cost.

It imports nothing of this repository but what its variant needs, so that it runs in the environments of others, too.
Cases come as JSON lines on the standard input, one answer each goes to the standard output:

    {"turns": 8, "result": 500, "concurrency": 32, "episodes": 64, "url": "http://127.0.0.1:18080"}

Cost is the CPU time of the process (all threads) for each model call, so that other work on the machine matters little.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

Episode = Callable[[dict[str, Any]], Awaitable[Any]]


class Texts:
    """The workload."""

    def __init__(self, path: Path) -> None:
        """Read it."""
        self.work: dict[str, Any] = json.loads(path.read_text())
        self.call, self.answer = self.work["call"], self.work["answer"]

    def result(self, size: int, number: int) -> str:
        """Return the result of the tool's call of this number."""
        return f"Section {number}.\n{self.work['results'][str(size)]['text']}"

    def result_ids(self, size: int) -> list[int]:
        """Return about the ids of a tool result."""
        ids: list[int] = self.work["results"][str(size)]["ids"]
        return ids


def sampling(case: dict[str, Any]) -> dict[str, Any]:
    """Return the sampling parameters; the stub reads from the budget how many turns there shall be."""
    return {"max_new_tokens": 1_000 + case["turns"], "temperature": 1.0}


# --- variants ------------------------------------------------------------------------------------------------


def http_alone(texts: Texts) -> Episode:
    """The requests of the turns with aiohttp and orjson and nothing else."""
    session: list[Any] = []

    async def episode(case: dict[str, Any]) -> None:
        ids = list(texts.work["first_prompt"])
        new = [*texts.call["ids"], *texts.result_ids(case["result"])]
        for _ in range(case["turns"]):
            await post(session, case, ids)
            ids += new

    return episode


async def post(session: list[Any], case: dict[str, Any], ids: list[int]) -> Any:
    """Send one prompt and read its reply."""
    import aiohttp
    import orjson

    if not session:
        session.append(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=2000)))
    body = orjson.dumps({"input_ids": ids, "sampling_params": sampling(case), "return_logprob": True})
    headers = {"content-type": "application/json"}
    async with session[0].post(case["url"] + "/generate", data=body, headers=headers) as response:
        return orjson.loads(await response.read())


def model_class() -> Any:
    """Return Strands' model without options, for those that only stream."""
    from strands.models import Model

    class Streaming(Model):
        """Only streams."""

        def update_config(self, **model_config: Any) -> None:
            raise NotImplementedError("it has no options")

        def get_config(self) -> Any:
            return {}

        def structured_output(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError("it only streams")

    return Streaming


def loop_alone(texts: Texts, *, with_http: bool = False) -> Episode:
    """Strands' loop over a model that says the workload's answers, with or without sending the requests."""
    session: list[Any] = []

    class Said(model_class()):  # type: ignore[misc]  # made where Strands is imported
        """Says the same as the stub."""

        def __init__(self, case: dict[str, Any]) -> None:
            self.case = case
            self.ids = list(texts.work["first_prompt"]) if with_http else []

        async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            done = len(messages) // 2
            if with_http:
                await post(session, self.case, self.ids)
                self.ids += [*texts.call["ids"], *texts.result_ids(self.case["result"])]
            else:
                await asyncio.sleep(0)
            last = done + 1 >= self.case["turns"]
            yield {"messageStart": {"role": "assistant"}}
            yield {"contentBlockStart": {"start": {}}}
            text = texts.answer["text"] if last else texts.call["said"]
            yield {"contentBlockDelta": {"delta": {"text": text}}}
            yield {"contentBlockStop": {}}
            if not last:
                yield {"contentBlockStart": {"start": {"toolUse": {"toolUseId": f"c{done}", "name": "look_up"}}}}
                arguments = json.dumps(texts.call["arguments"])
                yield {"contentBlockDelta": {"delta": {"toolUse": {"input": arguments}}}}
                yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn" if last else "tool_use"}}
            usage = {"inputTokens": 1000, "outputTokens": 100, "totalTokens": 1100}
            yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 50}}}

    return agent_episode(texts, Said)


def least(texts: Texts, *, tokenize: bool = True) -> Episode:
    """A provider that does what none can leave out, and nothing else: what any provider costs at least.

    It takes the result's text from the newest message, puts the template's fixed pieces around it and lets the
    tokenizer encode that; sends all ids; keeps the ids and log-probabilities of the reply; finds the call in its text;
    and says it as events. It checks nothing, and would train wrongly at the first surprise.

    Args:
        texts: The workload.
        tokenize: Whether results are encoded; without, their ids are there already.
    """
    from tokenizers import Tokenizer

    encode = Tokenizer.from_file(str(Path(texts.work["tokenizer"]) / "tokenizer.json")).encode
    session: list[Any] = []
    before = "\n<|im_start|>user\n<tool_response>\n"
    after = "\n</tool_response><|im_end|>\n<|im_start|>assistant\n"

    class Least(model_class()):  # type: ignore[misc]  # made where Strands is imported
        """Goes on from the newest message."""

        def __init__(self, case: dict[str, Any]) -> None:
            self.case = case
            self.ids = list(texts.work["first_prompt"])
            self.logprobs: list[float] = []

        async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            if len(messages) > 1:
                text = messages[-1]["content"][0]["toolResult"]["content"][0]["text"]
                if tokenize:
                    self.ids += encode(before + text + after, add_special_tokens=False).ids
                else:
                    self.ids += texts.result_ids(self.case["result"])
            reply = await post(session, self.case, self.ids)
            self.ids += reply["output_ids"]
            self.logprobs += [row[0] for row in reply["meta_info"]["output_token_logprobs"]]
            text, call, rest = reply["text"].partition("<tool_call>")
            yield {"messageStart": {"role": "assistant"}}
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": text}}}
            yield {"contentBlockStop": {}}
            if call:
                said = json.loads(rest.partition("</tool_call>")[0])
                use = {"toolUseId": f"c{len(messages)}", "name": said["name"]}
                yield {"contentBlockStart": {"start": {"toolUse": use}}}
                yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(said["arguments"])}}}}
                yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "tool_use" if call else "end_turn"}}
            usage = {"inputTokens": len(self.ids), "outputTokens": 100, "totalTokens": len(self.ids) + 100}
            yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 50}}}

    return agent_episode(texts, Least)


def strands_sglang(texts: Texts) -> Episode:
    """The provider of whichever strands-sglang is installed."""
    from strands_sglang import SGLangClient, SGLangModel, get_tokenizer

    tokenizer = get_tokenizer(texts.work["tokenizer"])
    clients: dict[str, Any] = {}

    def model(case: dict[str, Any]) -> Any:
        url = case["url"]
        if url not in clients:
            clients[url] = SGLangClient(url, max_connections=2000)
        return SGLangModel(client=clients[url], tokenizer=tokenizer, sampling_params=sampling(case))

    return agent_episode(texts, model)


def openai(texts: Texts) -> Episode:
    """Strands' own provider for servers of OpenAI's kind."""
    from strands.models.openai import OpenAIModel

    def model(case: dict[str, Any]) -> Any:
        client = {"base_url": case["url"] + "/v1", "api_key": "none"}
        budget = {"max_tokens": sampling(case)["max_new_tokens"]}
        return OpenAIModel(client_args=client, model_id="m", params=budget)

    return agent_episode(texts, model)


def agent_episode(texts: Texts, make_model: Callable[[dict[str, Any]], Any]) -> Episode:
    """Return a coroutine function that runs an agent over a fresh model to its end."""
    from strands import Agent
    from strands.agent.conversation_manager import NullConversationManager
    from strands.tools import PythonAgentTool

    specs: list[Any] = [
        {"name": tool["name"], "description": tool["description"], "inputSchema": {"json": tool["parameters"]}}
        for tool in (texts.work["tool"], *texts.work["other_tools"])
    ]

    async def episode(case: dict[str, Any]) -> Any:
        done = 0

        async def look_up(tool_use: Any, **_: Any) -> Any:
            nonlocal done
            done += 1
            content = [{"text": texts.result(case["result"], done)}]
            return {"toolUseId": tool_use["toolUseId"], "status": "success", "content": content}

        agent = Agent(
            model=make_model(case),
            tools=[PythonAgentTool(spec["name"], spec, look_up) for spec in specs],
            system_prompt=texts.work["system"],
            callback_handler=None,
            conversation_manager=NullConversationManager(),
        )
        result = await agent.invoke_async(texts.work["question"])
        if result.stop_reason != "end_turn" or done != case["turns"] - 1:
            raise RuntimeError(f"the episode ended with {result.stop_reason} after {done} tool calls: {case}")
        return agent

    return episode


VARIANTS: dict[str, Callable[[Texts], Episode]] = {
    "http": http_alone,
    "loop": loop_alone,
    "floor": lambda texts: loop_alone(texts, with_http=True),
    "free": lambda texts: least(texts, tokenize=False),
    "least": least,
    "this": strands_sglang,
    "released": strands_sglang,
    "openai": openai,
}


# --- measuring -----------------------------------------------------------------------------------------------


async def run(episode: Episode, case: dict[str, Any]) -> list[Any]:
    """Run `episodes` of a case, `concurrency` at a time; return what they returned."""
    left, kept = case["episodes"], []

    async def worker() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            kept.append(await episode(case))

    await asyncio.gather(*(worker() for _ in range(min(case["concurrency"], case["episodes"]))))
    return kept


async def measure(episode: Episode, case: dict[str, Any]) -> dict[str, float]:
    """Return what a case costs for each turn, in ms of CPU, and the turns per second."""
    await run(episode, {**case, "episodes": 1})
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    await run(episode, case)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    turns = case["episodes"] * case["turns"]
    return {"cpu_ms": cpu / turns * 1e3, "turns_per_s": turns / wall}


def memory_in_use() -> int:
    """Return the resident bytes of this process, after giving back what is free."""
    import ctypes
    import os

    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def hold(episode: Episode, case: dict[str, Any]) -> dict[str, float]:
    """Return the bytes that episodes take while they are held: live objects, and resident memory."""
    import tracemalloc

    await run(episode, {**case, "episodes": 4})
    resident = memory_in_use()
    tracemalloc.start()
    held = await run(episode, case)
    grown = memory_in_use() - resident - tracemalloc.get_tracemalloc_memory()
    live = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    rollout = getattr(held[0].model, "rollout", None)
    tokens = len(rollout) if rollout is not None else 0
    return {"live": float(live), "resident": float(grown), "episodes": float(len(held)), "tokens": float(tokens)}


async def answer_cases(episode: Episode) -> None:
    """Answer the cases on the standard input, all in one event loop."""
    loop = asyncio.get_running_loop()
    print("ready", flush=True)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        case = json.loads(line)
        measured = await (hold if case.get("hold") else measure)(episode, case)
        print(json.dumps(measured), flush=True)


def main() -> None:
    """Read the arguments and answer cases until the input ends."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("variant", choices=list(VARIANTS))
    parser.add_argument("workload", type=Path)
    arguments = parser.parse_args()
    asyncio.run(answer_cases(VARIANTS[arguments.variant](Texts(arguments.workload))))


if __name__ == "__main__":
    main()
