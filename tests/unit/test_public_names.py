"""The names and signatures that other projects use, and that what is declared is what is there."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import inspect
import re
import sys
from pathlib import Path

import pytest

import strands_sglang
from strands_sglang import errors

NAMES = [
    "SGLangClient",
    "SGLangModel",
    "Rollout",
    "Trajectory",
    "RecordWriter",
    "read_records",
    "Episode",
    "run_episode",
    "run_episodes",
    "read_parquet",
    "write_parquet",
    "LoopLimiter",
    "ToolLimiter",
    "TerminationReason",
    "RetryPolicy",
    "get_client",
    "get_client_from_slime_args",
    "get_tokenizer",
    "get_tool_parser",
    "SGLangError",
    "SGLangClientError",
    "SGLangHTTPError",
    "SGLangContextLengthError",
    "SGLangThrottledError",
    "SGLangConnectionError",
    "SGLangDecodingError",
    "LoopLimitReachedError",
    "MaxToolIterationsReachedError",
    "MaxToolCallsReachedError",
    "MaxMessagesReachedError",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_others_import_is_there(name: str) -> None:
    assert getattr(strands_sglang, name) is not None
    assert name in strands_sglang.__all__


@pytest.mark.parametrize("name", strands_sglang.__all__)
def test_every_declared_name_loads(name: str) -> None:
    assert getattr(strands_sglang, name) is not None


def test_every_error_is_public_and_in_the_tree_of_the_docstring() -> None:
    classes = {name for name, cls in vars(errors).items() if inspect.isclass(cls) and issubclass(cls, Exception)}

    assert classes <= set(strands_sglang.__all__)
    assert errors.__doc__ is not None
    assert {name for name in classes if name not in errors.__doc__} == set()


def test_every_error_but_the_root_is_a_standard_exception_too() -> None:
    for cls in vars(errors).values():
        if inspect.isclass(cls) and issubclass(cls, errors.SGLangError) and cls not in ROOTS:
            standard = [base for base in cls.__mro__ if base.__module__ == "builtins"]
            assert set(standard) - {Exception, BaseException, object}, cls


ROOTS = {errors.SGLangError, errors.SGLangClientError}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'SGLangModle'"):
        strands_sglang.SGLangModle  # noqa: B018


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("tool_parsers", "get_tool_parser register_tool_parser ToolParser ToolParseResult HermesToolParser"),
        ("tokenization", "ChatTokenizer"),
        ("client", "SGLangClient"),
    ],
)
def test_parts_have_their_public_names(module: str, names: str) -> None:
    part = importlib.import_module(f"strands_sglang.{module}")

    assert [name for name in names.split() if not hasattr(part, name)] == []


def test_the_model_takes_the_arguments_that_existing_code_passes() -> None:
    parameters = inspect.signature(strands_sglang.SGLangModel).parameters

    assert {"client", "tokenizer", "tool_parser"} <= parameters.keys()
    assert all(parameters[name].kind is inspect.Parameter.KEYWORD_ONLY for name in ("client", "tokenizer"))


def test_the_client_takes_the_arguments_that_existing_code_passes() -> None:
    parameters = inspect.signature(strands_sglang.SGLangClient).parameters

    assert next(iter(parameters)) == "base_url"
    assert parameters["max_connections"].default == 1000
    assert parameters["timeout"].default == 900.0
    assert parameters["connect_timeout"].default == 5.0
    assert {"max_retries", "retry_delay", "api_key", "admin_api_key", "transport"} <= parameters.keys()


def test_the_limiter_takes_the_arguments_that_existing_code_passes() -> None:
    limiter = strands_sglang.LoopLimiter(max_tool_iters=1, max_tool_calls=2, max_parallel_tool_calls=3, max_messages=4)

    assert (limiter.tool_iter_count, limiter.tool_call_count, limiter.message_count) == (0, 0, 0)
    assert limiter.cancelled_tool_call_count == 0


def test_what_is_imported_is_declared() -> None:
    """Every library that src/ imports stands in the metadata, in the dependencies or in an extra."""
    source = Path(strands_sglang.__file__).parent
    imported = {
        (name.name if isinstance(node, ast.Import) else node.module or "").split(".")[0]
        for path in source.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not node.level)
        for name in node.names
    }
    foreign = imported - set(sys.stdlib_module_names) - {"strands_sglang"}
    requirements = importlib.metadata.requires("strands-sglang") or []
    declared = {re.split(r"[\s;<>=!~\[]", requirement)[0].lower() for requirement in requirements}
    distributions = importlib.metadata.packages_distributions()

    undeclared = {
        library
        for library in foreign
        if not declared & {name.lower().replace("_", "-") for name in distributions.get(library, [library])}
    }

    # They come with what is declared, and their versions are its business.
    assert undeclared <= {"tokenizers", "pydantic_core"}
