"""Replace this process by an SGLang server on the CPU, on loopback.

    python tests/integration/sglang_cpu/serve.py MODEL_DIR PORT [more flags of sglang.launch_server]

Uses the environment whose interpreter runs this, or else the one that install.py makes by default. A flag given again
later wins, so any of those below can be overridden. SIGTERM to this process id lets running requests end, then ends
the server and its workers. With STRANDS_SGLANG_END_WITH_PARENT=1 the end of the process (strictly: the thread) that
started this does the same, however it ends.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

# Beside this file, which runs as a script and never as a part of the tests.
from install import default_environment, is_whole, python_of, server_env  # type: ignore[import-not-found]

FLAGS = (
    *("--device", "cpu", "--dtype", "float32"),
    *("--attention-backend", "torch_native", "--sampling-backend", "pytorch"),
    *("--disable-cuda-graph", "--disable-overlap-schedule"),
    # Without a bound the KV pool takes all memory there is.
    *("--max-total-tokens", "32768", "--max-running-requests", "16"),
    *("--random-seed", "0"),
    # An idle scheduler would otherwise keep half a core busy.
    "--sleep-on-idle",
    # A small model under a JSON grammar would otherwise pad with whitespace until its budget ends.
    "--constrained-json-disable-any-whitespace",
)

PR_SET_PDEATHSIG = 1  # see prctl(2); what it sets survives execve


def main() -> None:
    """Become the server."""
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    model, port, *more = sys.argv[1:]
    own = Path(sys.prefix)
    environment = own if is_whole(own) else default_environment()
    if not is_whole(environment):
        sys.exit("serve.py: SGLang is not installed; run: python tests/integration/sglang_cpu/install.py")
    if os.environ.get("STRANDS_SGLANG_END_WITH_PARENT") == "1":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    python = str(python_of(environment))
    server = ["-m", "sglang.launch_server", "--model-path", model, "--host", "127.0.0.1", "--port", port]
    os.execve(python, [python, "-W", "ignore", *server, *FLAGS, *more], {**os.environ, **server_env()})


if __name__ == "__main__":
    main()
