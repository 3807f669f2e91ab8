"""LaTeX, read out loud as far as everyday formulas go."""

from __future__ import annotations

import re

COMMANDS = {
    "times": " times ",
    "cdot": " times ",
    "div": " divided by ",
    "pm": " plus or minus ",
    "leq": " is at most ",
    "le": " is at most ",
    "geq": " is at least ",
    "ge": " is at least ",
    "neq": " is not equal to ",
    "ne": " is not equal to ",
    "approx": " is about ",
    "to": " to ",
    "rightarrow": " to ",
    "infty": " infinity ",
    "sum": " the sum of ",
    "int": " the integral of ",
    "degree": " degrees ",
    "circ": " degrees ",
    "in": " in ",
}
UNREAD = {"left", "right", "text", "mathrm", "mathbf", "displaystyle", "quad", "begin", "end"}
SIGNS = {"=": " equals ", "+": " plus ", "<": " is less than ", ">": " is greater than "}
POWERS = {"2": " squared", "3": " cubed"}

GROUP = r"\{([^{}]*)\}"
FRACTION = re.compile(r"\\[dt]?frac\s*" + GROUP + r"\s*" + GROUP)
ROOT = re.compile(r"\\sqrt\s*" + GROUP)
POWER = re.compile(r"\^\s*(?:" + GROUP + r"|(\w))")
INDEX = re.compile(r"_\s*(?:" + GROUP + r"|(\w))")
COMMAND = re.compile(r"\\([A-Za-z]+)")
MINUS = re.compile(r"(?<=[\w)}])\s*[-\u2212]\s*(?=[\w({\\])")


def read_math(formula: str) -> str:
    r"""Words for a formula: `\frac{a}{b}` is "a over b", `x^2` is "x squared"."""
    text, before = formula, ""
    while text != before:
        before = text
        text = FRACTION.sub(r" \1 over \2 ", text)
        text = ROOT.sub(r" the square root of \1 ", text)
        text = POWER.sub(_power, text)
        text = INDEX.sub(lambda found: f" {found[1] or found[2] or ''} ", text)
    text = MINUS.sub(" minus ", text)
    text = COMMAND.sub(_command, text)
    for sign, words in SIGNS.items():
        text = text.replace(sign, words)
    return " ".join(re.sub(r"[{}\\$&]", " ", text).split())


def _power(found: re.Match[str]) -> str:
    exponent = (found[1] or found[2] or "").strip()
    return POWERS.get(exponent, f" to the power of {exponent} ")


def _command(found: re.Match[str]) -> str:
    name = found[1]
    return COMMANDS.get(name, " " if name in UNREAD else f" {name} ")
