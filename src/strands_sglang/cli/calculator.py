"""The demo's tool: arithmetic on an expression, read with `ast`, never run as code."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable

_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_MAX_LENGTH = 200


def evaluate(expression: str) -> str:
    """Return the value of an expression of numbers, `+ - * /` and brackets.

    Args:
        expression: Such as `2 * (3 + 4)`.

    Returns:
        The value, rounded to four decimals, an integer without a point; or a text that begins with "Error:".
    """
    if len(expression) > _MAX_LENGTH:
        return "Error: expression too long"
    try:
        value = round(_value(ast.parse(expression.strip(), mode="eval").body), 4)
        return str(int(value)) if value == int(value) else str(value)
    except ZeroDivisionError:
        return "Error: division by zero"
    except OverflowError:
        return "Error: number too large"
    except (SyntaxError, ValueError):
        return "Error: invalid expression"


def _value(node: ast.expr) -> float:
    """Return the value of a syntax tree that holds nothing but arithmetic."""
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return node.value
    raise ValueError("not arithmetic")
