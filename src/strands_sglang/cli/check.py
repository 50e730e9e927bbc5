"""`strands-sglang check`: can this model's chat template be trusted?

Loads a tokenizer, checks its template with the battery of conversation shapes, prints the report. The exit code says
whether it can be used; what cannot be loaded or has no template is one error. Decides nothing about verdicts; see
`tokenization.check`.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strands_sglang.errors import SGLangConfigError
from strands_sglang.tokenization.battery.conversations import battery

if TYPE_CHECKING:
    from strands_sglang.tokenization import TemplateReport

_DESCRIPTION = """Check that prompts made turn by turn from recorded tokens are, token for token, what the chat template
makes of the whole conversation. Each of {shapes} conversation shapes is exact, differs in an expected way (as where a
template leaves reasoning out of history), is refused for a reason the template itself confirms, or is a fault."""
_EXIT_CODES = """exit codes:
  0  no shape is at fault, and conversations can go on (single shapes may be refused: the report says which and why)
  1  a shape is at fault: agents refuse the template
  2  the tokenizer cannot be loaded, or the template is not valid
  3  no fault, but even the smallest conversation that goes on is refused: after a plain answer, or, where the template
     is made for tools, after a tool call"""
_FAULT, _NO_SECOND_TURN = 1, 3


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command's parser."""
    parser = subparsers.add_parser(
        "check",
        help="check a model's chat template",
        description=_DESCRIPTION.format(shapes=len(battery())),
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", metavar="MODEL_OR_DIR", help="directory of a tokenizer, or its name on the hub")
    parser.add_argument(
        "--enable-thinking",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="pass enable_thinking to the template (default: pass nothing)",
    )
    parser.add_argument("--chat-template", type=Path, metavar="FILE", help="check this template instead")
    parser.add_argument("--template-args", metavar="JSON", help='further template arguments, as {"name": value}')
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(args: argparse.Namespace) -> int:
    """Run the command.

    Args:
        args: What the parser of `add_parser` gives.

    Returns:
        The exit code, as `--help` lists them.

    Raises:
        SGLangConfigError: If an argument cannot be meant, or the tokenizer cannot be loaded.
        ChatTemplateMissingError: If there is no template.
        ChatTemplateError: If the template is not valid.
    """
    template, template_args = _template(args.chat_template), _template_args(args.template_args)
    report = _report(args.model, template, args.enable_thinking, template_args)
    print(json.dumps(report.to_dict(), ensure_ascii=False, indent=2) if args.json else report)
    if not report.ok:
        return _FAULT
    return _NO_SECOND_TURN if report.text_refusal or report.call_refusal else 0


def _report(
    model: str, template: str | None, enable_thinking: bool | None, template_args: dict[str, Any]
) -> TemplateReport:
    # transformers would otherwise tell that it found no torch, which nothing here needs.
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    # Loading it takes seconds: not before the arguments are known to be good.
    from strands_sglang.tokenization.check import check_template
    from strands_sglang.tokenization.pretrained import get_tokenizer

    return check_template(
        get_tokenizer(model),
        chat_template=template,
        enable_thinking=enable_thinking,
        chat_template_kwargs=template_args,
    )


def _template(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not text in UTF-8"
        raise SGLangConfigError(f"--chat-template {path}: {reason}") from error


def _template_args(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise SGLangConfigError(f"--template-args is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise SGLangConfigError(f"--template-args has to be a JSON object, not {text}")
    return value
