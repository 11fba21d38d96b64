"""What translating a plan gives."""

from __future__ import annotations

from dataclasses import dataclass

from rekindle.calculus.terms import Term
from rekindle.catalyst.jvm import JavaObject


@dataclass(frozen=True, slots=True)
class Translated:
    """A term, with the Catalyst attribute of each of its columns."""

    term: Term
    attributes: tuple[JavaObject, ...]
