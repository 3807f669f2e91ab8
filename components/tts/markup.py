"""The rules of `clean`: what each piece of markup is, and what is said in its place.

Patterns are matched where a piece may begin, with as much text as has come; the `regex` package
says when a match hangs on text to come (a partial match), but not within a negative lookahead
that reaches beyond one character. So each pattern must look one character beyond what it takes
wherever more would change it. END, a lone surrogate that no real text holds, stands behind the
last text, so that looking ahead works there too. Quantifiers are bounded: what doesn't close in
time is plain text.
"""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import regex

from .mathtext import read_math

Mark = Literal["", "break", "mute"]
Say = Callable[[Any], str]
END = "\ud800"
EOL = rf"(?:\n|(?={END}))"
SP = r"[ \t]{0,80}"
GAP = r"[ \t]{1,80}(?=[^ \t])"
LONGEST_RUN = 64


@dataclass(frozen=True, slots=True)
class Rule:
    """A kind of markup: its pattern, the words for a match, and its mark.

    "break" ends a clause behind it; "mute" is a block of its own that isn't spoken. `opens` is
    a group of the pattern that names what must close before text is spoken again.
    """

    pattern: Any
    say: Say
    mark: Mark = ""
    opens: str | None = None


def rule(pattern: str, say: Say | str = "", mark: Mark = "", opens: str | None = None) -> Rule:
    """A rule; `say` may be the words themselves."""

    def words(match: Any) -> str:
        return say if isinstance(say, str) else say(match)

    return Rule(regex.compile(pattern, regex.DOTALL), words, mark, opens)


def host(url: str) -> str:
    """What is said for an address: its host, without www, the dots spoken."""
    name = regex.sub(r"^(?:\w+://)?(?:[^/@\s]*@)?(?:www\.)?", "", url, flags=regex.IGNORECASE)
    name = regex.split(r"[/:?#\s]", name, maxsplit=1)[0].strip(".,;!?)*_")
    return name.replace(".", " dot ").replace("-", " ") or "link"


def code(text: str) -> str:
    """Words for inline code: names apart at underscores, dots spoken, brackets dropped."""
    text = regex.sub(r"(?<=\w)\.(?=\w)", " dot ", text)
    text = regex.sub(r"(?<=[a-z])(?=[A-Z][a-z])", " ", text)
    text = text.replace("==", " equals ").replace("=", " equals ").replace("/", " slash ")
    return regex.sub(r"[^\w\s.,:;!?'+%-]|_|(?<!\w)-+|-+(?!\w)", " ", text)


def run(char: str, say: Say | str = "", but: str = "") -> tuple[Rule, ...]:
    """Rules for a run of one character, as long as it may be; `but` mustn't follow it."""
    char = regex.escape(char)
    whole = rule(rf"{char}{{1,{LONGEST_RUN}}}(?=[^{char}{but}])", say)
    return whole, rule(f"{char}{{{LONGEST_RUN}}}")


def stars(match: Any) -> str:
    """`2 * 3` is a product; any other run of stars is emphasis."""
    before, after = _around(match)
    spaced = before.isspace() and after.isspace()
    return " times " if match[0] == "*" and (spaced or (before + after).isdigit()) else ""


def underscores(match: Any) -> str:
    """snake_case falls into words; at a word's edge it is emphasis."""
    before, after = _around(match)
    return " " if before.isalnum() and after.isalnum() else ""


def _around(match: Any) -> tuple[str, str]:
    text, start, end = match.string, match.start(), match.end()
    return (text[start - 1] if start else " ", text[end] if text[end : end + 1] != END else " ")


TEXT = r"(?:[^\[\]\n]|\[[^\[\]\n]{0,100}\]){0,300}"
TARGET = r"(?:[^()\n]|\([^()\n]{0,300}\)){0,2000}"
URL = rf"(?:https?://|ftp://|www\.)(?:[^\s<>\"`\](){END}]|\([^\s<>()]{{0,200}}\)){{1,2000}}"
OPEN = rf"\((?=[^\s<>(){END}]{{0,200}}[\s<>({END}])"
URL_END = rf"(?=[.,;:!?)'*_~]*(?:[\s<>\"`\]){END}]|{OPEN}))"
BLOCKS = "br|p|div|li|ul|ol|tr|td|th|table|hr|h[1-6]|blockquote|section"
UNSPOKEN = "think|thinking|reasoning|script|style|svg|pre"


def link(match: Any) -> str:
    """The text of a link; where that is an address itself, its host."""
    shown = match["text"].strip()
    return host(shown) if regex.match(URL, shown) else speak_inline(shown or "link")


def speak_inline(text: str) -> str:
    """Words for text inside a link or an image."""
    from .clean import Cleaner

    cleaner = Cleaner(inline=True)
    return "".join(piece.spoken for piece in [*cleaner.feed(text), *cleaner.flush()])


NO_BOX = r"(?=[^\[ \t]|\[[^ xX]|\[[ xX][^\]])"

LINE_RULES = (
    rule(rf"{SP}(?P<fence>`{{3,40}}|~{{3,40}})[^`\n{END}]{{0,200}}{EOL}", "", "mute", "fence"),
    rule(rf"{SP}\|[^\n{END}]{{0,4000}}{EOL}", "", "mute"),
    rule(rf"{SP}:?-{{1,200}}:?{SP}(?:\|{SP}:?-{{0,200}}:?{SP}){{1,50}}{EOL}", "", "mute"),
    rule(
        rf"{SP}(?:(?:\*{SP}){{3,99}}|(?:-{SP}){{3,99}}|(?:_{SP}){{3,99}}|={{2,99}}{SP}){EOL}",
        " ",
        "break",
    ),
    rule(rf"{SP}\[\^?[^\]\n]{{1,200}}\]:[^\n{END}]{{0,2000}}{EOL}", "", "mute"),
    rule(rf"{SP}#{{1,6}}{GAP}"),
    rule(rf"{SP}>(?:[ \t]|(?=[^ \t]))"),
    rule(rf"{SP}[-*+•‣◦▪\u2013]{GAP}(?:\[[ xX]\]{GAP}|{NO_BOX})"),
    rule(rf"{SP}(?P<n>\d{{1,3}})[.)]{GAP}(?=\S)", lambda match: f"{match['n']}, "),
    rule(GAP, " "),
)

EMOJI = (
    r"(?:(?![\u00a9\u00ae\u2122\u203c\u2049])\p{Extended_Pictographic}"
    r"|[\U0001f1e6-\U0001f1ff\U0001f3fb-\U0001f3ff\ufe0e\ufe0f\u200d\u20e3\U000e0020-\U000e007f]"
    r"|[\u25a0-\u25ff\u2713-\u2718])"
)

# Without an end ahead, each address in a long run would be tried character by character.
ENDS = (
    rf"(?=(?:https?://|ftp://|www\.)(?:[^\s<>\"`\](){END}]++|\([^\s<>()]{{0,200}}\))*+"
    rf"[\s<>\"`\](){END}])"
)
URL_RULES = (rule(rf"(?i)(?<![\w@]){ENDS}{URL}?{URL_END}", lambda match: host(match[0])),)
VERSION_RULES = (rule(r"(?<![\w.])[vV](?=\d)", "version "),)

INLINE_RULES: dict[str, tuple[Rule, ...]] = {
    **dict.fromkeys("hHwWfF", URL_RULES),
    **dict.fromkeys("vV", VERSION_RULES),
    "`": (
        rule(r"`(?!`)(?P<code>[^`\n]{1,200})`(?=[^`])", lambda match: code(match["code"])),
        rule(
            r"``(?!`)(?P<code>(?:[^`\n]|`(?!`)){1,200})``(?=[^`])",
            lambda match: code(match["code"]),
        ),
        *run("`"),
    ),
    "*": run("*", stars),
    "_": run("_", underscores),
    "~": (rule(r"~(?=\d)", "about "), *run("~")),
    "[": (
        rule(rf"\[(?P<text>{TEXT})\](?:\({TARGET}\)|\[[^\]\n]{{0,100}}\])", link),
        rule(r"\[\^[^\]\n]{1,50}\]"),
        rule(r"\[\d{1,3}(?:[,\u2013-] ?\d{1,3}){0,9}\]"),
        rule(r"\["),
    ),
    "]": (rule(r"\]"),),
    "!": (rule(rf"!\[(?P<text>{TEXT})\]\({TARGET}\)", lambda m: speak_inline(m["text"])),),
    "<": (
        rule(r"<!--.{0,2000}?-->"),
        rule(rf"(?i)<(?P<tag>{UNSPOKEN})(?:\s[^<>]{{0,300}})?>", "", "mute", "tag"),
        rule(rf"(?i)</?(?:{BLOCKS})(?:\s[^<>]{{0,300}})?/?>", " ", "break"),
        rule(rf"<(?P<url>{URL}?)>", lambda match: host(match["url"])),
        rule(r"<(?:mailto:)?(?P<mail>[\w.+-]{1,64}@[\w.-]{1,200})>", lambda match: match["mail"]),
        rule(r"</?[A-Za-z][\w:-]{0,40}(?:\s[^<>]{0,300})?/?>"),
    ),
    "&": (
        rule(
            r"&(?:#\d{1,7}|#[xX][\da-fA-F]{1,6}|[A-Za-z]{2,31});",
            lambda match: html.unescape(match[0]),
        ),
    ),
    "$": (
        rule(r"\$\$(?P<math>[^$]{1,1000})\$\$", lambda match: read_math(match["math"])),
        rule(
            r"\$(?=[^\s\d$])(?P<math>[^$\n]{1,200})(?<=\S)\$(?=[^\w])",
            lambda match: read_math(match["math"]),
        ),
        rule(r"\$(?=[^\d])"),
    ),
    "\\": (
        rule(r"\\\[(?P<math>.{1,1000}?)\\\]", lambda match: read_math(match["math"])),
        rule(r"\\\((?P<math>.{1,300}?)\\\)", lambda match: read_math(match["math"])),
        rule(r"\\[.,!?;:'\"%&@+=()-]", lambda match: match[0][1]),
        rule(r"\\[\[\]`*_{}#~|<>\\/^$]"),
        rule(r"\\", " "),
    ),
    "|": run("|", ", "),
    "#": (
        rule(r"(?<=\b[CFcf])#(?=\W)", " sharp"),
        *run("#", but=r"\d"),
    ),
    ".": (rule(r"(?<=[A-Za-z0-9_][A-Za-z_])\.(?=[a-z])", " dot "),),
    "-": (rule(r"-{1,20}>", " to "), rule(r"-{2,64}(?=[^->])", " — "), rule(r"-{64}")),
    "=": (rule(r"={1,20}>", " to "),),
    "→": (rule("→", " to "),),
    "\u2013": (rule(r"(?<=[\d%])\u2013(?=[\d$€£])", " to "),),
    "{": (rule(r"\{"),),
    "}": (rule(r"\}"),),
}

SYMBOL_RULES = (rule(EMOJI), rule(r"[\u200b\u2060\ufeff\x00-\x08\x0b-\x1f\x7f]"))
NEWLINE = regex.compile(r"\n(?:\s{0,80}(?=\S)|\s{80})")
PLAIN = regex.compile(r"[A-Za-z0-9 ,;:'\"()?%+/@^\u00a0-\u024f]")
