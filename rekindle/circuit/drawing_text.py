"""Text in a drawing: how wide it is, how it is cut, how it is written as SVG."""

from __future__ import annotations

from xml.sax.saxutils import escape

from rekindle.circuit.explain_words import on_one_line

INK, MUTED, PAPER, RULE = "#1e293b", "#64748b", "#f8fafc", "#e2e8f0"
"""The colours of text, of lesser text, of the background and of thin rules."""


def text_width(text: str, size: float) -> float:
    """About how wide a text is in a common sans-serif font; rather too wide than too narrow."""
    return size * sum(_character_width(character) for character in text)


def _character_width(character: str) -> float:
    if character in "iljtfrI.,:;'|!()[] ":
        return 0.37
    if character in "mwMW@%⋈" or character.isupper():
        return 0.84 if character in "mwMW@%⋈" else 0.73
    return 0.61 if ord(character) < 0x2E80 else 1.05


def fit(text: str, size: float, width: float) -> str:
    """The text, or as much of it as fits, with an ellipsis.

    >>> fit("select", 10, 100), fit("a rather long condition", 10, 60)
    ('select', 'a rather lo…')
    """
    text = on_one_line(text)
    if text_width(text, size) <= width:
        return text
    while text and text_width(text + "…", size) > width:
        text = text[:-1]
    return text.rstrip(" ,(") + "…"


def wrap(text: str, size: float, width: float, most: int) -> list[str]:
    """The text in lines that fit, at most so many; the last one is cut.

    >>> wrap("the changed rows of a group", 10, 90, 2)
    ['the changed', 'rows of a group']
    """
    lines, words = [""], on_one_line(text).split(" ")
    for i, word in enumerate(words):
        longer = f"{lines[-1]} {word}".strip()
        if text_width(longer, size) <= width or not lines[-1]:
            lines[-1] = longer
        elif len(lines) < most:
            lines.append(word)
        else:
            lines[-1] = " ".join([lines[-1], *words[i:]])
            break
    return [fit(line, size, width) for line in lines]


def clean(text: str) -> str:
    """The text escaped; characters that XML cannot hold are replaced."""
    allowed = (c if c in "\t\n" or (c >= " " and not _is_forbidden(c)) else "\ufffd" for c in text)
    return escape("".join(allowed))


def _is_forbidden(character: str) -> bool:
    return "\ud800" <= character <= "\udfff" or character in "\ufffe\uffff"


def text_element(
    x: float,
    y: float,
    text: str,
    *,
    size: float = 11,
    colour: str = INK,
    weight: int = 400,
    anchor: str = "start",
) -> str:
    """A line of text whose baseline is at `y`."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" font-weight="{weight}" '
        f'fill="{colour}" text-anchor="{anchor}">{clean(text)}</text>'
    )
