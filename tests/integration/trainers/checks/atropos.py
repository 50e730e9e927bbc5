"""Atropos' trajectory server takes our groups, and hands them out as they were."""

from __future__ import annotations

import importlib
from importlib.metadata import version
from typing import Any

from strands_sglang.exporters import get_exporter
from tests.integration.trainers.episodes import group


def main() -> dict[str, Any]:
    server = importlib.import_module("atroposlib.api.server")
    rows = get_exporter("atropos").export(group(8)).rows
    taken = [server.ScoredData(**row) for row in rows]
    return {
        "version": version("atroposlib"),
        "groups of two": [len(data.tokens) for data in taken] == [2] * 4,
        "fields": all(data.model_dump(exclude_none=True) == row for data, row in zip(taken, rows, strict=True)),
    }
