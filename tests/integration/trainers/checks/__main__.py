"""Runs one check within its trainer's environment, and prints what it found as a line of JSON."""

from __future__ import annotations

import importlib
import json
import sys

if __name__ == "__main__":
    print(json.dumps(importlib.import_module(f"{__package__}.{sys.argv[1]}").main()))
