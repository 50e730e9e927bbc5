"""The server that the integration tests talk to.

Where it comes from, in this order: `--sglang-base-url`, else one that is started here from the installed environment
(tests/integration/sglang_cpu), else none: then the tests are skipped with the command that installs it, or fail where
STRANDS_SGLANG_REQUIRE_SERVER=1 says that they must run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import httpx
import pytest

from strands_sglang.engine import TINY_MODEL

from .episodes import Served
from .sglang_cpu.install import default_environment, is_whole
from .sglang_cpu.server import running_server

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

INSTALL = "python tests/integration/sglang_cpu/install.py"

StartServer = Callable[..., AbstractContextManager[str]]
"""`start_server(*flags, model=...)`: a server of one's own for a `with` block, as its base URL."""

measured = pytest.StashKey[dict[str, str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("sglang")
    group.addoption(
        "--sglang-base-url", metavar="URL", help="use this running SGLang server instead of starting one on the CPU"
    )
    group.addoption(
        "--sglang-tool-parser",
        metavar="NAME",
        default="hermes",
        help="tool parser for the served model (default: hermes, which the shipped model needs)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[measured] = {}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if found := config.stash[measured]:
        terminalreporter.section("measured on the server")
        for name, value in found.items():
            terminalreporter.line(f"{name}: {value}")


@pytest.fixture(scope="session")
def measure(pytestconfig: pytest.Config) -> Callable[[str, str], None]:
    """`measure(name, value)`: show a number that a test measured at the end of the run."""
    return pytestconfig.stash[measured].__setitem__


@pytest.fixture(scope="session")
def tiny_model() -> Path:
    """The folder of the checkpoint that the library ships."""
    return Path(TINY_MODEL)


@pytest.fixture(scope="session")
def start_server(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> StartServer:
    """Start servers with flags or checkpoints of a test's own; each lives as long as its `with` block."""
    environment = default_environment()
    if not is_whole(environment):
        reason = f"SGLang is not installed in {environment}; to install it: {INSTALL}"
        if os.environ.get("STRANDS_SGLANG_REQUIRE_SERVER") == "1":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)

    def start(*flags: str, model: Path = tiny_model) -> AbstractContextManager[str]:
        log = tmp_path_factory.mktemp("sglang") / "server.log"
        return running_server(environment, model, flags, log)

    return start


@pytest.fixture(scope="session")
def sglang_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The base URL of the server for tests that need no special one."""
    given: str | None = request.config.getoption("--sglang-base-url")
    if given is not None:
        yield given.rstrip("/")
        return
    start: StartServer = request.getfixturevalue("start_server")
    with start() as url:
        yield url


@pytest.fixture(scope="session")
def served_model(sglang_url: str) -> str:
    """Path or name of the served model's tokenizer, as the server gives it."""
    reply = httpx.get(f"{sglang_url}/model_info", timeout=300.0)
    info: dict[str, Any] = reply.raise_for_status().json()
    name = str(info["tokenizer_path"])
    # A server started from here may have been given a relative path.
    return str(Path(name).resolve()) if Path(name).is_dir() else name


@pytest.fixture(scope="session")
def tokenizer(served_model: str) -> PreTrainedTokenizerBase:
    """The served model's tokenizer."""
    from transformers import AutoTokenizer

    return cast("PreTrainedTokenizerBase", AutoTokenizer.from_pretrained(served_model))


@pytest.fixture(scope="session")
def tool_parser_name(pytestconfig: pytest.Config) -> str:
    """The tool parser for the served model."""
    return str(pytestconfig.getoption("--sglang-tool-parser"))


@pytest.fixture(scope="session")
def served(sglang_url: str, tokenizer: PreTrainedTokenizerBase, tool_parser_name: str) -> Served:
    """The server with what is needed to talk to its model."""
    return Served(url=sglang_url, tokenizer=tokenizer, tool_parser=tool_parser_name)
