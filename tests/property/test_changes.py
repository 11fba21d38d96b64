"""That generated calls are lawful wherever they are run, without the statements between them."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.property import changes, schemas
from tests.property.changes import Model


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_calls_replay_from_nothing(data: st.DataObject) -> None:
    specs = [data.draw(schemas.tables(f"r{i}")) for i in range(2)]
    model, again = Model.empty(specs), Model.empty(specs)
    for _ in range(4):
        for edit in data.draw(changes.calls(model, 3)):
            assert not edit.sql
            again.apply(edit)
            keys = [row[0] for row in again.rows[edit.table]]
            assert not again.specs[edit.table].keyed or len(keys) == len(set(keys))
    assert repr(again.rows) == repr(model.rows)
