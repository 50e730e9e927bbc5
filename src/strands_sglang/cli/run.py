"""`strands-sglang run`: many episodes of an agent factory, from a file of prompts to a file of records.

Owns the options, the reading of the prompts, and the exit code: 0 when every episode finished, 1 when some did not or
were never begun (the same command samples them), 130 after Ctrl-C. Everything that can be told before an episode is
begun is an error of use.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strands_sglang.errors import SGLangConfigError

if TYPE_CHECKING:
    from strands_sglang.runner import EpisodeRun
    from strands_sglang.runner.target import AgentTarget

_DESCRIPTION = """Run episodes. TARGET names a callable that makes a fresh strands Agent; with --base-url it is given
a context whose `model(**options)` makes the agent's model over that server, and which holds the row of the prompt.
PROMPTS has one JSON value a line: a text, or an object with "prompt" and optionally "id"; its other keys are for the
factory and the reward. Every episode is appended to OUTPUT as soon as it ended; the same command goes on where it
stopped."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command's parser."""
    parser = subparsers.add_parser("run", help="run many episodes of an agent", description=_DESCRIPTION)
    parser.add_argument("target", metavar="TARGET", help="module:agent_factory")
    parser.add_argument("prompts", metavar="PROMPTS", help="file of JSON lines, or - for standard input")
    parser.add_argument("-o", "--output", required=True, type=Path, help="file of records, one JSON line an episode")
    parser.add_argument(
        "--reward", metavar="MODULE:NAME", help="callable that is given an episode and returns a number"
    )
    parser.add_argument("--concurrency", type=int, default=64, metavar="N", help="episodes at once (default 64)")
    parser.add_argument("--group-size", type=int, default=1, metavar="G", help="episodes of each prompt (default 1)")
    parser.add_argument("--timeout", type=float, metavar="S", help="seconds for one episode")
    parser.add_argument("--deadline", type=float, metavar="S", help="seconds for the whole run")
    parser.add_argument("--retries", type=int, default=0, metavar="N", help="attempts after a retryable ending")
    parser.add_argument("--min-finished", type=int, metavar="N", help="end the rest once so many episodes finished")
    parser.add_argument(
        "--no-resume", dest="resume", action="store_false", help="OUTPUT must be new (default: go on from it)"
    )
    parser.add_argument("--progress", choices=("auto", "rich", "plain"), default="auto", help="default auto")
    parser.add_argument("--no-progress", dest="progress", action="store_const", const=False, help="show no progress")
    _add_limits(parser.add_argument_group("limits of an episode"))
    _add_server(parser.add_argument_group("the server of context.model"))
    _add_ray(parser.add_argument_group("Ray (extra 'ray')"))


_LIMITS = {
    "max_tool_iters": "answers with calls",
    "max_tool_calls": "calls",
    "max_parallel_tool_calls": "calls executed per answer",
    "max_messages": "messages",
    "max_model_calls": "answers",
    "max_sampled_tokens": "sampled tokens",
    "max_total_tokens": "read and sampled tokens",
    "max_failed_calls": "calls that cannot be read",
    "max_seconds": "seconds, looked at after each tool turn",
}


def _add_limits(group: argparse._ArgumentGroup) -> None:
    for name, words in _LIMITS.items():
        kind = float if name == "max_seconds" else int
        option = name.replace("max_", "--limit-").replace("_", "-")
        group.add_argument(option, dest=name, type=kind, metavar="N", help=words)


def _add_server(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--base-url", metavar="URL", help="address of the SGLang server or router")
    group.add_argument("--api-key", metavar="KEY", help="the server's API key")
    group.add_argument("--tokenizer", metavar="NAME", help="default: the one that the server names")
    group.add_argument("--tool-parser", metavar="NAME", help="default: told from the chat template")
    group.add_argument("--sampling-params", metavar="JSON", help='such as {"temperature": 1.0, "max_new_tokens": 512}')


def _add_ray(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--ray", action="store_true", help="run over the actors of a Ray cluster, or of a local one")
    group.add_argument("--ray-address", metavar="ADDRESS", help="of an existing cluster; default: found, or local")
    group.add_argument("--actors", type=int, default=2, metavar="N", help="default 2")
    group.add_argument("--actor-cpus", type=float, default=1.0, metavar="N", help="CPUs of each actor (default 1)")


def run(args: argparse.Namespace) -> int:
    """Run the command.

    Raises:
        SGLangConfigError: If an argument cannot be meant, a line is damaged, or what is named cannot be loaded.
    """
    from strands_sglang.runner.target import AgentTarget, load

    load(args.target)
    reward = load(args.reward) if args.reward else None
    if not args.output.parent.is_dir():
        raise SGLangConfigError(f"--output: there is no folder {str(args.output.parent)!r}")
    target = AgentTarget(
        name=args.target,
        base_url=args.base_url,
        tokenizer=args.tokenizer,
        tool_parser=args.tool_parser,
        config={"sampling_params": _sampling_params(args.sampling_params)} if args.sampling_params else {},
        client_options={"max_connections": max(args.concurrency, 1), "api_key": args.api_key},
    )
    return asyncio.run(_run(args, target, _prompts(args), reward))


def _prompts(args: argparse.Namespace) -> Iterable[Any]:
    """Return the prompts, of a file only once all of its lines were looked at; a pipe can be read once."""
    path = Path(args.prompts)
    if args.prompts == "-" or (path.exists() and not path.is_file() and not path.is_dir()):
        return prompts_of(args.prompts)
    if args.min_finished is not None:  # what an earlier run finished of them is counted before the first one begins
        return list(prompts_of(args.prompts))
    for _ in prompts_of(args.prompts):  # a damaged line is told before anything is paid for
        pass
    return prompts_of(args.prompts)


async def _run(args: argparse.Namespace, target: AgentTarget, prompts: Iterable[Any], reward: Any) -> int:
    from strands_sglang.runner import run_episodes

    episodes = run_episodes(
        target,
        prompts,
        concurrency=args.concurrency,
        group_size=args.group_size,
        limits={name: getattr(args, name) for name in _LIMITS if getattr(args, name) is not None},
        timeout=args.timeout,
        deadline=args.deadline,
        reward=reward,
        retries=args.retries,
        min_finished=args.min_finished,
        output=args.output,
        resume=args.resume,
        progress=args.progress,
        **_ray(args),
    )
    unfinished = 0
    try:
        await target.prepare()
        async for episode in episodes:
            unfinished += not episode.finished
    finally:
        await target.aclose()
    return _report(episodes, unfinished, args.output)


def _report(episodes: EpisodeRun, unfinished: int, output: Path) -> int:
    """Say how the run ended, and return the exit code."""
    numbers = episodes.metrics()
    endings = ", ".join(f"{name[6:]} {count}" for name, count in numbers.items() if name.startswith("ended/"))
    print(f"{numbers['episodes']} episodes in {output} ({endings or 'none'})")
    if numbers["episodes_skipped"]:
        print(f"{numbers['episodes_skipped']} more were finished before")
    if unfinished:
        stopped = f" and {numbers['episodes_stopped']} were stopped" if numbers["episodes_stopped"] else ""
        print(f"{unfinished} did not finish{stopped}; the same command samples them again", file=sys.stderr)
    elif numbers["episodes_stopped"]:
        print(f"{numbers['episodes_stopped']} were stopped", file=sys.stderr)
    if episodes.interrupted:
        return 130
    if episodes.cut_short:
        print("it was ended before all episodes were played; the same command goes on", file=sys.stderr)
    return 1 if unfinished or episodes.cut_short else 0


def _ray(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `run_episodes` for Ray."""
    if not args.ray:
        return {}
    from strands_sglang.runner import RayActors

    return {"actors": RayActors(count=args.actors, cpus=args.actor_cpus, address=args.ray_address)}


def _sampling_params(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise SGLangConfigError(f"--sampling-params is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise SGLangConfigError(f"--sampling-params has to be a JSON object, not {text}")
    return value


def prompts_of(path: str) -> Iterator[Any]:
    """Yield the prompts of a file, line by line.

    Raises:
        SGLangConfigError: If it cannot be read, or a line is not a prompt; the message says which.
    """
    from strands_sglang.runner import Prompt

    try:
        with open(0 if path == "-" else path, encoding="utf-8", closefd=path != "-") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    yield Prompt.of(json.loads(line))
                except (ValueError, RecursionError) as error:
                    raise SGLangConfigError(f"{path}, line {number}: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise SGLangConfigError(f"the prompts {path} cannot be read: {error}") from error
