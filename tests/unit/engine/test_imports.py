"""What importing the engines loads, and the error where NumPy is missing."""

from __future__ import annotations

import subprocess
import sys

import strands_sglang.engine as package


def output_of(code: str) -> str:
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return run.stdout


def test_importing_the_engines_loads_neither_numpy_nor_a_tokenizer() -> None:
    code = """
import sys
from strands_sglang.engine import EngineTransport, ScriptedEngine, TinyEngine, serve
print([name for name in ("numpy", "tokenizers", "transformers", "strands", "torch") if name in sys.modules])
sys.modules["numpy"] = None
try:
    TinyEngine()
except Exception as error:
    print(type(error).__name__, error, error.hint, sep=" | ")
"""
    loaded, error = output_of(code).splitlines()

    assert loaded == "[]"
    assert error == (
        'SGLangConfigError | TinyEngine needs NumPy, which is not installed | pip install "strands-sglang[demo]"'
    )


def test_every_public_name_loads_and_is_listed() -> None:
    assert sorted(package.__all__) == dir(package)
    for name in package.__all__:
        assert getattr(package, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(package, "Nothing")
