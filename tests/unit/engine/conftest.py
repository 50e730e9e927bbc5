"""The embedded model, loaded once, and clients for it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

# The matrices are too small for a second BLAS thread to pay, and it spins. Read when NumPy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import httpx
import pytest

from strands_sglang.engine import EngineTransport, TinyEngine
from strands_sglang.engine.tiny.checkpoint import SHIPPED, Checkpoint, load


@pytest.fixture(scope="session")
def checkpoint() -> Checkpoint:
    """The checkpoint that is shipped."""
    return load(SHIPPED)


@pytest.fixture(scope="module")
def engine() -> TinyEngine:
    """An engine for tests that leave nothing behind but cached prefixes."""
    return TinyEngine(seed=0)


@pytest.fixture
def fresh() -> Iterator[TinyEngine]:
    """An engine of the test's own, whose requests are ended after it."""
    engine = TinyEngine(seed=0, weight_version="v0")
    yield engine
    engine.abort_all()


@pytest.fixture
async def client(engine: TinyEngine) -> AsyncIterator[httpx.AsyncClient]:
    """A client of `engine`."""
    async with httpx.AsyncClient(transport=EngineTransport(engine), base_url="http://engine", timeout=60) as client:
        yield client


@pytest.fixture
async def fresh_client(fresh: TinyEngine) -> AsyncIterator[httpx.AsyncClient]:
    """A client of `fresh`."""
    async with httpx.AsyncClient(transport=EngineTransport(fresh), base_url="http://engine", timeout=60) as client:
        yield client
