"""Statements on streams are read in time that follows their length, and texts as SQL has them."""

from __future__ import annotations

from rekindle.runtime.streaming import stream_statements
from rekindle.runtime.streaming.stream_statements import _pairs

CREATE = "CREATE STREAM s INTO t FROM csv OPTIONS ({})"


def test_letters_after_a_backslash_are_what_they_are_in_sql() -> None:
    text = r"(path 'a', sep '\t', quote '\'', lineSep = '\n', 'nullValue' 'it''s')"
    wanted = {"path": "a", "sep": "\t", "quote": "'", "lineSep": "\n", "nullValue": "it's"}
    assert _pairs("OPTIONS", text) == wanted
    assert stream_statements._CREATE.match(CREATE.format(text[1:-1]))


def test_a_statement_that_is_not_read_is_refused_at_once() -> None:
    """Reading it in every way that its texts could be cut would take longer than anybody waits."""
    many = ", ".join(f"a{i} 'b''c'" for i in range(60))
    assert stream_statements._CREATE.match(CREATE.format(many))
    assert stream_statements._CREATE.match(CREATE.format(many) + " nonsense") is None
    assert stream_statements._CREATE.match(CREATE.format(many.replace(",", ""))) is None
