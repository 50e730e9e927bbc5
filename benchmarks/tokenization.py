"""Cost of one turn's tokenisation, beside rendering and encoding the whole conversation anew.

For histories of 1k, 8k, 32k and 128k tokens the same turn (a tool call, its result, the next generation prompt) is
tokenised in two ways: by `ChatTokenizer.bridge`, and whole, as `apply_chat_template` does it. The two take turns, CPU
time of the process is measured, and the best of the repeats counts, so that other work touches both alike.

    python benchmarks/tokenization.py MODEL_DIRECTORY
    python benchmarks/tokenization.py MODEL_DIRECTORY --json
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from strands_sglang.tokenization import ChatTokenizer, SampledTurn
from strands_sglang.tokenization.pretrained import get_tokenizer

SIZES = (1_000, 8_000, 32_000, 128_000)
RESULT = "The forecast for the coast says wind from the west, 14 degrees, rain after noon; see table 7 for details. "
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Does {name.replace('_', ' ')} and returns what came of it.",
            "parameters": {
                "type": "object",
                "properties": {"query": {"type": "string", "description": "What to look for."}},
                "required": ["query"],
            },
        },
    }
    for name in ("get_weather", "search_web", "read_file", "run_code")
]


def tool_round(number: int, *, words: int) -> list[dict[str, Any]]:
    """Return a call and its result."""
    call_id = f"call{number:05}"
    function = {"name": "get_weather", "arguments": {"query": f"coast {number}"}}
    return [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": call_id, "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": call_id, "name": "get_weather", "content": RESULT * words},
    ]


def history(chat: ChatTokenizer, tokens: int) -> tuple[list[dict[str, Any]], list[int]]:
    """Return messages that make a prompt of about so many tokens, and the prompt."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are a careful assistant. " * 20},
        {"role": "user", "content": "Compare the weather on the coasts."},
    ]
    shortest = len(chat.first(messages, TOOLS).ids)
    per_round = len(chat.first([*messages, *tool_round(0, words=20)], TOOLS).ids) - shortest
    for number in range(max(1, round((tokens - shortest) / per_round))):
        messages += tool_round(number, words=20)
    return messages, chat.first(messages, TOOLS).ids


def best(run: Callable[[], object], times: int) -> float:
    """Return the least CPU time of a run, in microseconds."""
    least = float("inf")
    for _ in range(times):
        start = time.process_time()
        run()
        least = min(least, time.process_time() - start)
    return least * 1e6


def measure(path: str, repeats: int) -> list[dict[str, float]]:
    """Return one row per size of history."""
    tokenizer = get_tokenizer(path)
    chat = ChatTokenizer(tokenizer)
    stop = chat.stop_token_ids[0]
    turn, *new = tool_round(99_999, words=2)
    cases = []
    for size in SIZES:
        context, prompt = history(chat, size)
        sampled = [*tokenizer.encode("<tool_call>...</tool_call>", add_special_tokens=False), stop]
        cases.append((context, SampledTurn(ids=sampled, message=turn, prompt_ids=prompt)))

    def whole(context: Sequence[Any]) -> object:
        return tokenizer.apply_chat_template(
            [*context, turn, *new], tools=list(TOOLS), add_generation_prompt=True, return_dict=False
        )

    rows = [
        {"tokens": float(len(turn.prompt_ids)), "bridge_us": float("inf"), "whole_us": float("inf")}
        for _, turn in cases
    ]
    for _ in range(repeats):
        for row, (context, sampled_turn) in zip(rows, cases, strict=True):
            bridge = best(lambda c=context, t=sampled_turn: chat.bridge(c, t, new, TOOLS), 20)  # type: ignore[misc]
            row["bridge_us"] = min(row["bridge_us"], bridge)
            row["whole_us"] = min(row["whole_us"], best(lambda c=context: whole(c), 1))  # type: ignore[misc]
    for row in rows:
        row["whole_over_bridge"] = row["whole_us"] / row["bridge_us"]
        row["bridge_over_shortest"] = row["bridge_us"] / rows[0]["bridge_us"]
    return rows


def main() -> None:
    """Print a table, and the same as JSON."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("model", help="directory of a tokenizer with a chat template")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print JSON only")
    options = parser.parse_args()
    rows = measure(options.model, options.repeats)
    if not options.json:
        print(f"{'history':>10} {'bridge':>12} {'whole anew':>12} {'whole/bridge':>13} {'vs shortest':>12}")
        for row in rows:
            print(
                f"{row['tokens']:10,.0f} {row['bridge_us']:9,.0f} us {row['whole_us']:9,.0f} us "
                f"{row['whole_over_bridge']:12,.1f}x {row['bridge_over_shortest']:11.2f}x"
            )
        print()
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
