"""Tool `calculator`: arithmetic from an expression's syntax tree; nothing is ever executed.

Only numbers, operators and the functions below have a meaning. Whole numbers are exact, and bounded
before they are computed: a short expression can name a number that fills the memory.
"""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from threading import Event
from typing import Any, TypeAlias

from scheduling.executors.tools.contract import ToolFault

MOST_CHARACTERS = 1_000
MOST_BITS = 4_096
"""The longest whole number; some 1,200 digits."""

Number: TypeAlias = int | float

_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Number]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
_FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    "abs": abs, "round": round, "min": min, "max": max, "floor": math.floor, "ceil": math.ceil,
    "sqrt": math.sqrt, "exp": math.exp, "log": math.log, "log10": math.log10, "sin": math.sin,
    "cos": math.cos, "tan": math.tan, "asin": math.asin, "acos": math.acos, "atan": math.atan,
}  # fmt: skip
_NAMES = {"pi": math.pi, "e": math.e}


def calculate(arguments: Mapping[str, Any], _cancel: Event) -> str:
    """The value of `expression`."""
    return str(value_of(arguments["expression"]))


def value_of(expression: str) -> Number:
    """Return the value of an expression; raise `ToolFault` with what is wrong with it."""
    if len(expression) > MOST_CHARACTERS:
        message = f"The expression has more than {MOST_CHARACTERS} characters."
        raise ToolFault(message)
    try:
        tree = ast.parse(expression.strip(), mode="eval")
        value = _value(tree.body)
    except ToolFault:
        raise
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        message = f"{_shown(expression)} is no arithmetic that has a value."
        raise ToolFault(message) from None
    except ZeroDivisionError:
        raise ToolFault("It divides by zero.") from None
    except (OverflowError, TypeError):
        message = f"{_shown(expression)} has no value that can be computed."
        raise ToolFault(message) from None
    if isinstance(value, float) and not math.isfinite(value):
        raise ToolFault("The value is too large.")
    return value


def _value(node: ast.expr) -> Number:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return _bounded(value)
        case ast.Name(id=name) if name in _NAMES:
            return _NAMES[name]
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in _UNARY:
            return _UNARY[type(sign)](_value(operand))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _BINARY:
            return _applied(sign, _value(left), _value(right))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            return _real(_FUNCTIONS[name](*map(_value, args)))
    message = (
        f"{_shown(ast.unparse(node))} is not allowed; use numbers, + - * / // % **, "
        f"pi, e, and {', '.join(_FUNCTIONS)}."
    )
    raise ToolFault(message)  # fmt: skip


def _applied(sign: ast.operator, left: Number, right: Number) -> Number:
    if isinstance(sign, ast.Pow) and isinstance(left, int) and isinstance(right, int):
        _check_power(left, right)
    return _real(_BINARY[type(sign)](left, right))


def _check_power(left: int, right: int) -> None:
    if abs(left) > 1 and abs(right) * abs(left).bit_length() > MOST_BITS:
        raise _too_long()


def _real(value: object) -> Number:
    if isinstance(value, int | float):
        return _bounded(value)
    raise ToolFault("The value is not a real number.")


def _bounded(value: Number) -> Number:
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise _too_long()
    return value


def _too_long() -> ToolFault:
    return ToolFault(f"A whole number in it has more than {MOST_BITS} bits.")


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
