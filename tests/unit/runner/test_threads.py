from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

from strands_sglang.runner.threads import DaemonThreads, use_daemon_threads


def test_calls_give_their_results_and_errors() -> None:
    threads = DaemonThreads()

    assert threads.submit(pow, 2, exp=10).result(60) == 1024
    assert isinstance(threads.submit(int, "x").exception(60), ValueError)


def test_calls_that_hang_hold_up_no_other() -> None:
    threads, release = DaemonThreads(), threading.Event()
    hanging = [threads.submit(release.wait) for _ in range(100)]

    assert threads.submit(lambda: "done").result(60) == "done"
    release.set()
    assert [future.result(60) for future in hanging] == [True] * 100


def test_idle_threads_are_used_again() -> None:
    threads = DaemonThreads()
    used = set()
    for _ in range(20):
        used.add(threads.submit(threading.get_ident).result(60))
        while not threads._idle._value:  # the thread says that it is idle after it gave the result
            pass

    assert len(used) == 1


async def test_a_loop_gets_them_once() -> None:
    use_daemon_threads()
    first = asyncio.get_running_loop()._default_executor  # type: ignore[attr-defined]
    use_daemon_threads()

    assert asyncio.get_running_loop()._default_executor is first  # type: ignore[attr-defined]
    assert await asyncio.to_thread(lambda: 7) == 7


def test_a_process_ends_though_a_thread_hangs() -> None:
    code = """
import asyncio, time
from strands_sglang.runner.threads import use_daemon_threads

async def main():
    use_daemon_threads()
    await asyncio.wait({asyncio.ensure_future(asyncio.to_thread(time.sleep, 3600))}, timeout=0.1)

asyncio.run(main())
print("over", flush=True)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)

    assert done.stdout == "over\n"
