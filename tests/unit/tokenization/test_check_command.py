from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import pytest

from strands_sglang.cli import check
from strands_sglang.errors import ChatTemplateError, ChatTemplateMissingError, SGLangConfigError
from strands_sglang.tokenization.battery.conversations import battery
from tests.real_tokenizers import tokenizer_dir


def _run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    check.add_parser(parser.add_subparsers(dest="command", required=True))
    return check.run(parser.parse_args(["check", *arguments]))


def test_a_good_template_is_reported_and_the_exit_code_is_zero(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(str(tokenizer_dir("qwen2.5"))) == 0

    printed = capsys.readouterr().out
    assert "54 exact" in printed
    assert "fault" not in printed


def test_the_report_can_be_had_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(str(tokenizer_dir("qwen3")), "--no-enable-thinking", "--json") == 0

    assert json.loads(capsys.readouterr().out)["ok"] is True


def test_a_directory_that_does_not_exist_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(SGLangConfigError, match="does not exist"):
        _run(str(tmp_path / "nothing"))


def test_a_tokenizer_without_a_template_is_one_error(tmp_path: Path) -> None:
    shutil.copytree(tokenizer_dir("qwen2.5"), tmp_path / "bare")
    (tmp_path / "bare" / "chat_template.jinja").unlink()

    with pytest.raises(ChatTemplateMissingError, match="no chat template"):
        _run(str(tmp_path / "bare"))


def test_a_template_of_ones_own_can_be_checked(tmp_path: Path) -> None:
    (tmp_path / "broken.jinja").write_text("{% for %}")

    with pytest.raises(ChatTemplateError, match="not valid"):
        _run(str(tokenizer_dir("qwen2.5")), "--chat-template", str(tmp_path / "broken.jinja"))


def test_an_unreadable_template_is_one_error_that_names_it_once(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.jinja")

    with pytest.raises(SGLangConfigError, match=r"--chat-template .*: No such file or directory") as raised:
        _run(str(tokenizer_dir("qwen2.5")), "--chat-template", missing)

    assert str(raised.value).count(missing) == 1


def test_a_directory_without_a_tokenizer_is_told_in_a_whole_sentence(tmp_path: Path) -> None:
    with pytest.raises(SGLangConfigError, match=r"holds none of tokenizer\.json, .*tokenizer_config\.json\n"):
        _run(str(tmp_path))


def test_a_template_for_first_prompts_only_has_its_own_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plain.jinja").write_text("{% for m in messages %}{{ m.content }}\n{% endfor %}")

    assert _run(str(tokenizer_dir("qwen2.5")), "--chat-template", str(tmp_path / "plain.jinja")) == 3

    printed = capsys.readouterr().out
    assert "warning: only first prompts can be made, what follows a turn is refused: " in printed
    assert "warning: the chat template does not write tool definitions or tool calls" in printed


def test_help_tells_the_number_of_shapes_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        _run("--help")

    printed = capsys.readouterr().out
    assert f"Each of {len(battery())} conversation shapes" in printed
    assert "exit codes:" in printed


@pytest.mark.parametrize(("text", "words"), [("{", "is not JSON"), ("[1]", "has to be a JSON object")])
def test_template_arguments_have_to_be_an_object(text: str, words: str) -> None:
    with pytest.raises(SGLangConfigError, match=words):
        _run(str(tokenizer_dir("qwen2.5")), "--template-args", text)
