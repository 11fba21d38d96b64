"""Keeping a database: views that are left out, history and files, verifying and backups."""

from __future__ import annotations

from dataclasses import dataclass

from rekindle.errors import DefinitionError, StaleError, UnsupportedError
from rekindle.runtime.connection import Connection, view_of
from rekindle.runtime.epochs.history import FOREVER
from rekindle.runtime.epochs.state import ViewEntry
from rekindle.runtime.places import placed
from rekindle.runtime.transactions.commits import Turn
from rekindle.runtime.trust import remember
from rekindle.runtime.turns import in_turn
from rekindle.runtime.upkeep.backup import Backup, backup
from rekindle.runtime.upkeep.verify import Verification, verify
from rekindle.runtime.views.creating import Given
from rekindle.runtime.views.restoring import Progress

ALL = "all"
"""As many epochs as there are."""


@dataclass(frozen=True, slots=True)
class Operations:
    """What an operator of one connection does."""

    connection: Connection

    @property
    def turn(self) -> Turn:
        return self.connection.turn

    # ---- views that are not followed -------------------------------------------------------

    @property
    def stale(self) -> dict[str, str]:
        """The views whose stored plan this version cannot run, and why."""
        return self.connection.engine.stale.shown(self.connection.refreshed().state)

    def register(self, name: str, given: Given) -> None:
        """Give the definition of an untrusted view again, so that it is followed."""
        connection = self.connection
        engine = connection.refreshed()
        entry = engine.state.entry(name)
        if not isinstance(entry, ViewEntry):
            raise DefinitionError(f"'{name}' is a table and has no definition")
        if entry.name not in engine.untrusted.reasons:
            if entry.name in connection.untrusted:
                raise UnsupportedError(
                    f"the factorised view '{name}' cannot be registered",
                    hint="open the database with rekindle.connect(path, trust=True)",
                )
            return
        fresh, term = connection.creating.read_again(entry, given)
        if engine.identity_of(entry, term) != entry.node:
            raise DefinitionError(
                f"the definition given for view '{name}' is not the one it was made of",
                detail="a query, a function or a column differs",
                hint="DROP the view and create it with the new definition",
            )
        connection.restoring.registered[entry.name] = (fresh, term)
        remember([fresh])
        connection.restore()

    @in_turn
    def refresh(self, name: str) -> None:
        """Fill a stale view anew, and the stale ones that it reads."""
        connection = self.connection
        connection.check_writable()
        entry = view_of(connection.engine.state, name)
        connection.refuse_untrusted(entry.name, "filled")
        connection.restoring.refresh([entry.name])
        reason = self.stale.get(entry.name)
        if reason is not None:
            raise StaleError(
                f"view '{entry.name}' cannot be filled anew",
                detail=reason,
                hint=f"DROP VIEW {entry.name} and create it again",
            )

    @in_turn
    def upgrade(self, progress: Progress) -> list[str]:
        """Fill every stale view anew and store every plan in this version's form."""
        self.connection.check_writable()
        refreshed = self.connection.restoring.refresh(progress=progress)
        engine = self.connection.engine
        engine.store_plans()
        entries = engine.state.entries
        return list(dict.fromkeys(entries[name].part_of or name for name in refreshed))

    # ---- history and files -----------------------------------------------------------------

    def vacuum(self) -> list[str]:
        """Remove files that no retained epoch needs; gives their names."""
        self.connection.check_writable()
        return self.connection.engine.collect()

    @property
    def retention(self) -> int | None:
        """For how many epochs this connection keeps changes; None when it keeps all."""
        engine = self.connection.engine
        epochs = engine.retention or self.connection.refreshed().state.retain
        return None if epochs == FOREVER else epochs

    @in_turn
    def retain(self, epochs: int | str) -> None:
        """Keep the changes of so many epochs from now on, or all; the database remembers it."""
        self.connection.check_writable()
        self.connection.engine.retain(retention(epochs))

    def verify(self) -> Verification:
        """Read every byte that the log names, and say what is damaged."""
        self.connection.check_open()
        return verify(self.connection.engine.store.uri)

    def backup(self, target: str) -> Backup:
        """Make `target` hold the last epoch."""
        self.connection.check_open()
        return backup(self.connection.engine.store.uri, placed(target))


def retention(epochs: int | str) -> int | None:
    """So many epochs as a number; None stands for all of them."""
    if isinstance(epochs, str) and epochs == ALL:
        return None
    if isinstance(epochs, bool) or not isinstance(epochs, int) or epochs < 1:
        raise DefinitionError(
            f"retain must be at least 1 epoch, or '{ALL}', not {epochs!r}", hint="such as 1000"
        )
    return epochs
