"""Terms that are collections of rows, as queries of Spark SQL.

    cMap(f, X)          f's body over what X ranges over: FROM X
    groupBy(X)          GROUP BY, with an aggregate for each use of the group
    coGroup(X, Y)       groupBy of X ⊎ Y, each row with its side; aggregates are of one side
    a nested query      a left join with its groups by what equates it with the row, or else with
                        its groups by the values of the row that it reads in any way; a cross join
                        with its one row if it reads none
    repeat, with limit  the steps one after the other, each a part of WITH
    repeat, without     a recursion of the view, whose end the query reads

So joins are those of SQL, of any multiplicity, and what follows them is the engine's rule for
joins: no rule here is about changes. What reads its row where that cannot be joined, within a
function of an array, is computed from the collected rows of what it ranges over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rekindle.errors import UnsupportedError
from rekindle.frontends.mrql import arrays
from rekindle.frontends.mrql.aggregates import aggregated, collected, zero_of
from rekindle.frontends.mrql.blocks import (
    Block,
    Branch,
    Condition,
    Correlated,
    Group,
    Grouping,
    Item,
    Relation,
    alias,
    relation,
)
from rekindle.frontends.mrql.demands import truth
from rekindle.frontends.mrql.expressions import Expressions
from rekindle.frontends.mrql.forms import component_of
from rekindle.frontends.mrql.loops import Loop
from rekindle.frontends.mrql.matching import conjunction, matched, same
from rekindle.frontends.mrql.repeats import Unwritten, repeated, repeated_all
from rekindle.frontends.mrql.scope import Bound, Environment, Known, Later, Pair, Row, Scope
from rekindle.frontends.mrql.values import (
    BOOLEAN,
    INT,
    UNIT,
    VOID,
    WHOLE,
    Inverse,
    Many,
    Rec,
    Sql,
    Tup,
    Value,
    column,
    component,
    ddl,
    leaves,
    mapped,
    number_anew,
    packed,
    reads,
    unified,
    unpacked,
    words,
)
from rekindle.mrql_language import terms as t
from rekindle.mrql_language.monoids import AND, OR, Monoid
from rekindle.names import quoted

_PART = re.compile(r"\bmrql_step_\d+\b")


@dataclass(frozen=True, slots=True)
class Compiled:
    """A query, and whether it has the rows of a collection or one row for a value."""

    query: str
    is_collection: bool
    paths: tuple[str, ...]
    """What became of each part, for people."""
    loops: tuple[Loop, ...] = ()
    """The recursions whose ends the query reads; only that of a view has some."""


class Compiler(Expressions):
    """Compiles terms in the place of collections."""

    def __init__(self, known: Known, view: str | None = None) -> None:
        super().__init__(known)
        self.view = view
        self.loops: list[Unwritten] = []
        self.is_looping = False
        """Is the step of a loop compiled?"""

    def compile(self, term: t.Term) -> Compiled:
        """The query of a closed term."""
        try:
            return self._compiled(term)
        except Correlated:
            raise UnsupportedError(
                "a part of the query reads a row that no join brings to where it stands",
                hint="write it as a select of its own over the rows that it reads, or evaluate the "
                "query by db.mrql",
            ) from None

    def _compiled(self, term: t.Term) -> Compiled:
        number_anew()
        self._parts: list[tuple[str, Relation]] = []
        self.paths: list[str] = []
        scope = Scope({})
        is_collection = self.is_collection(term, scope)
        if is_collection:
            branches = self.branches(term, scope)
        else:
            value = self.value(term, scope)
            if isinstance(value, Sql) and isinstance(value.type, Many):
                is_collection = True
                scope, value = self._elements(value, scope)
            branches = [Branch(scope.block, value)]
        query = self._with_parts(self._shown(branches))
        return Compiled(query, is_collection, tuple(dict.fromkeys(self.paths)), self._read(query))

    def _read(self, query: str) -> tuple[Loop, ...]:
        """The loops that the query reads, itself or by others; what was tried first left some."""
        needed: list[Loop] = []
        for each in reversed(self.loops):
            loop = each.written(self._with_parts)
            texts = (query, *(text for other in needed for text in other.texts))
            ends = [quoted(relation.result) for relation in loop.relations]
            if any(end in text for end in ends for text in texts):
                needed.insert(0, loop)
        return tuple(needed)

    def _with_parts(self, shown: str) -> str:
        """The query with the parts that it names, itself or by others, before it."""
        texts = {name: found.text() for name, found in self._parts}
        needed, todo = set[str](), [shown]
        while todo:
            named = texts.keys() & set(_PART.findall(todo.pop()))
            todo += [texts[name] for name in named - needed]
            needed |= named
        parts = ", ".join(f"{name} AS ({text})" for name, text in texts.items() if name in needed)
        return f"WITH {parts} {shown}" if parts else shown

    def _shown(self, branches: Sequence[Branch]) -> str:
        if not branches:
            raise UnsupportedError("the query is always empty, and its rows have no columns")
        values = unified([branch.value for branch in branches])
        return " UNION ALL ".join(
            branch.block.select(columns_of(value))
            for branch, value in zip(branches, values, strict=True)
        )

    # ---- rows ------------------------------------------------------------------------------

    def branches(self, term: t.Term, scope: Scope) -> list[Branch]:
        """The rows of a collection, as the union of selects."""
        return [
            Branch(inner.block, self._as_value(v, inner)) for inner, v in self.rows(term, scope)
        ]

    def _as_value(self, bound: Bound, scope: Scope) -> Value:
        return bound if isinstance(bound, Sql | Tup | Rec | Inverse) else self.bound(bound, scope)

    def rows(self, term: t.Term, scope: Scope) -> list[tuple[Scope, Bound]]:
        """The elements of a collection, each with the scope whose block ranges over it."""
        match term:
            case t.Braces():
                return [(inner := scope.fork(), self.value(item, inner)) for item in term.items]
            case t.CMap():
                return [
                    (Scope(scope.environment, each.block), value)
                    for outer, element in self.rows(term.operand, scope)
                    for each, value in self.rows(
                        term.function.body,
                        Scope(scope.environment, outer.block).bind(term.function.shape, element),
                    )
                ]
            case t.If():
                found = []
                for branch, holds in ((term.then, True), (term.otherwise, False)):
                    if branch != t.EMPTY:
                        inner = scope.fork()
                        self._test(term.condition, inner, holds)
                        found += self.rows(branch, inner)
                return found
            case t.Match():
                return self._matched_rows(term, scope)
            case t.Union():
                return [*self.rows(term.left, scope.fork()), *self.rows(term.right, scope.fork())]
            case t.Let():
                return self.rows(term.function.body, self.let(term, scope))
            case t.Invoke():
                body, inner, _ = self.entered(term, scope)
                self._calls.append(term.function)
                try:
                    return self.rows(body, inner)
                finally:
                    self._calls.pop()
            case t.Source():
                return [self._table(term, scope)]
            case t.Var():
                return self._variable_rows(term, scope)
            case t.Project() | t.Field() if (spread := self.spread(term, scope)) is not None:
                return self.rows(spread, scope)
            case t.Project() if self.is_collection(term, scope):
                return self._component_rows(term, scope)
            case t.GroupBy() | t.CoGroup() | t.OrderBy() | t.Repeat():
                try:
                    return self._derived(term, scope)
                except Correlated:
                    return [self._elements(self.array(term, scope), scope)]
            case _:
                return [self._elements(self.array_value(term, scope), scope)]

    def _component_rows(self, term: t.Project, scope: Scope) -> list[tuple[Scope, Bound]]:
        """The rows of a collection that is a component of a tuple."""
        operand, index = term.operand, term.index
        found = self.collections_of(operand, scope)
        if found is not None:
            return [self._from(found[index], scope)]
        match operand:
            case t.Tuple():
                return self.rows(operand.items[index], scope)
            case t.Let():
                inner = self.let(operand, scope)
                return self.rows(component_of(operand.function.body, index), inner)
            case _:
                assert isinstance(operand, t.Invoke)
                body, inner, _ = self.entered(operand, scope)
                self._calls.append(operand.function)
                try:
                    return self.rows(component_of(body, index), inner)
                finally:
                    self._calls.pop()

    def _matched_rows(self, term: t.Match, scope: Scope) -> list[tuple[Scope, Bound]]:
        """The rows of the body where the pattern matches, of what is otherwise where not."""
        rows: list[tuple[Scope, Bound]] = []
        inner = scope.fork()
        found = matched(term.pattern, self.value(term.subject, inner))
        if found is not None:
            inner.block.where += map(Condition, found.tests)
            rows += self.rows(term.body, inner.having(**found.bound))
        if term.otherwise == t.EMPTY or (found is not None and not found.tests):
            return rows
        inner = scope.fork()
        found = matched(term.pattern, self.value(term.subject, inner))
        if found is not None:
            test = conjunction(found.tests)
            inner.block.where.append(Condition(Sql(f"(NOT {test.text})", BOOLEAN, test.reads)))
        return [*rows, *self.rows(term.otherwise, inner)]

    def _variable_rows(self, term: t.Var, scope: Scope) -> list[tuple[Scope, Bound]]:
        bound = scope.environment[term.name]
        match bound:
            case Later():
                with self.where_written(bound):
                    inner = self.rows(bound.term, Scope(bound.environment, scope.block))
                return [(Scope(scope.environment, each.block), value) for each, value in inner]
            case Row():
                return [(scope, bound.value)]
            case Relation():
                return [self._from(bound, scope)]
            case _:
                return [self._elements(self.array_value(term, scope), scope)]

    def _table(self, term: t.Source, scope: Scope) -> tuple[Scope, Bound]:
        if term.request is not None:
            raise UnsupportedError("a source of files is read in the driver")
        if term.name not in self.known.tables:
            raise UnsupportedError(f"'{term.name}' is no table or view of the database")
        name = alias()
        read = frozenset((name,))
        scope.block.add(Item(name, "CROSS JOIN", lambda: f"{quoted(term.name)} AS {name}"))
        columns = [
            (f.name, column(f"{name}.{quoted(f.name)}", f.dataType, read))
            for f in self.known.tables[term.name].fields
        ]
        return scope, element_of_columns(columns)

    def _from(self, found: Relation, scope: Scope) -> tuple[Scope, Value]:
        name = alias()
        scope.block.add(found.item(name))
        return scope, found.over(name)

    def _elements(self, array: Sql, scope: Scope) -> tuple[Scope, Value]:
        """The elements of an array of the row."""
        name = alias()
        text = f"explode({array.text}) AS {name}(v)"
        scope.block.add(Item(name, "CROSS JOIN LATERAL", lambda: text, "", array.reads))
        element = Sql(f"{name}.v", arrays.element_of(array), frozenset((name,)))
        return scope, unpacked(element)

    def _test(self, condition: t.Term, scope: Scope, holds: bool) -> None:
        if holds and isinstance(condition, t.Call) and condition.function == "and":
            for side in condition.arguments:
                self._test(side, scope, holds)
            return
        if holds and isinstance(condition, t.Call) and condition.function == "=":
            left, right = (self.value(side, scope) for side in condition.arguments)
            for sides in same(left, right):
                scope.block.where.append(Condition(arrays.equal(*sides), sides))
            return
        if (found := self._exists(condition, scope, holds)) is not None:
            scope.block.where.append(Condition(found))
            return
        test = truth(packed(self.value(condition, scope)), "a condition")
        if not holds:
            test = Sql(f"(NOT coalesce({test.text}, false))", BOOLEAN, test.reads)
        scope.block.where.append(Condition(test))

    def _exists(self, condition: t.Term, scope: Scope, holds: bool) -> Sql | None:
        """`some x in X: c`, `exists(X)` or its contrary as a semi join; None if it is none."""
        while isinstance(condition, t.Call) and condition.function == "not":
            condition, holds = condition.arguments[0], not holds
        if not isinstance(condition, t.Reduce) or condition.monoid not in (OR, AND):
            return None
        if not self.reads_tables(condition.operand, scope):
            return None
        wanted = condition.monoid == OR
        try:
            found = self.rows(condition.operand, scope.fresh())
        except Correlated:
            return None
        if len(found) != 1:
            return None
        ((inner, head),) = found
        test = truth(packed(self._as_value(head, inner)), "a condition")
        block = inner.block
        if not wanted:
            test = Sql(f"(NOT {test.text})", BOOLEAN, test.reads)
        if test.text != "true":
            block.where.append(Condition(test))
        foreign = block.foreign()
        if not foreign or not foreign <= scope.block.aliases:
            return None
        if any(each.reads - block.aliases for each in block.items):
            return None
        self.paths.append("a quantifier over the rows of a table: a semi join")
        negated = "" if holds == wanted else "NOT "
        return Sql(f"{negated}EXISTS ({block.select([])})", BOOLEAN, foreign)

    def repeated(self, term: t.Repeat, scope: Scope) -> list[Relation]:
        return repeated_all(self, term, scope)

    # ---- groups ----------------------------------------------------------------------------

    def closed(self, term: t.Term, scope: Scope) -> Relation:
        """A collection as a subquery that reads nothing from outside of it."""
        return relation(self.branches(term, scope.fresh()))

    def _derived(self, term: t.Term, scope: Scope) -> list[tuple[Scope, Bound]]:
        match term:
            case t.GroupBy():
                found = self.closed(term.operand, scope)
                name = alias()
                row = found.over(name)
                grouping = Grouping(found.text, component(row, 0), name)
                self.paths.append("groupBy: GROUP BY its key")
                scope.block.add(grouping.item())
                return [(scope, Pair(grouping.key, Group(grouping, component(row, 1))))]
            case t.CoGroup():
                return [self._cogroup(term, scope)]
            case t.OrderBy():
                return [self._ordered(term, scope)]
            case _:
                assert isinstance(term, t.Repeat)
                return [self._from(repeated(self, term, scope), scope)]

    def _cogroup(self, term: t.CoGroup, scope: Scope) -> tuple[Scope, Bound]:
        sides = [self.closed(side, scope) for side in (term.left, term.right)]
        keys = unified([component(side.row, 0) for side in sides])
        rows = [component(side.row, 1) for side in sides]
        blocks = []
        for number, side in enumerate(sides):
            padded = [
                row
                if i == number
                else mapped(row, lambda each: Sql(f"CAST(NULL AS {ddl(each.type)})", each.type))
                for i, row in enumerate(rows)
            ]
            value = Tup((Sql(str(number), INT), keys[number], *padded))
            blocks.append(Branch(Block([side.item("s")]), value))
        both = relation(blocks)
        name = alias()
        row = both.over(name)
        grouping = Grouping(both.text, component(row, 1), name)
        self.paths.append("coGroup: GROUP BY the key of both sides")
        scope.block.add(grouping.item())
        which = packed(component(row, 0)).text
        groups = [Group(grouping, component(row, 2 + i), f"{which} = {i}") for i in range(2)]
        return scope, Pair(grouping.key, Pair(groups[0], groups[1]))

    def _ordered(self, term: t.OrderBy, scope: Scope) -> tuple[Scope, Bound]:
        if term.limit is None:
            inner, row = self._from(self.closed(term.operand, scope), scope)
            return inner, component(row, 1)
        inner, row = self._from(self._first_rows(term, scope), scope)
        return inner, component(row, 1)

    def _first_rows(self, term: t.OrderBy, scope: Scope) -> Relation:
        """The keys and rows of an order that has a limit."""
        assert term.limit is not None
        found = self.closed(term.operand, scope)
        limit = packed(self.value(term.limit, Scope(scope.environment)))
        if limit.reads:
            raise Correlated
        if limit.type not in WHOLE:
            raise UnsupportedError(f"a limit is a whole number, and not {words(limit.type)}")
        keys = ", ".join(_sorted_by(component(found.row, 0)))
        order = f" ORDER BY {keys}" if keys else ""

        def text() -> str:
            return f"SELECT * FROM ({found.text()}){order} LIMIT {limit.text}"

        self.paths.append("order by with limit: the first rows are kept")
        return Relation(text, found.row)

    def first_of(self, term: t.OrderBy, scope: Scope) -> Value | None:
        before = list(self.paths)
        try:
            found = self._first_rows(t.OrderBy(term.operand, t.Constant(1)), scope)
        except Correlated:
            self.paths[:] = before
            return None
        name = alias()
        # Of one row the greatest is that row; of none it is NULL.
        shown = ", ".join(f"max({each.text}) AS {each.text}" for each in leaves(found.row))
        text = f"(SELECT {shown} FROM ({{}})) AS {name}"
        scope.block.add(Item(name, "CROSS JOIN", lambda: text.format(found.text())))
        return component(found.over(name), 1)

    def of_group(self, monoid: Monoid | None, term: t.Term, scope: Scope) -> Value | None:
        name = term
        while isinstance(name, t.CMap):
            name = name.operand
        group = scope.environment.get(name.name) if isinstance(name, t.Var) else None
        if not isinstance(group, Group) or not isinstance(name, t.Var):
            return None
        inside = {
            each: group.grouping.inside(bound)
            if isinstance(bound, Sql | Tup | Rec | Inverse)
            else bound
            for each, bound in scope.environment.items()
        }
        inner = Scope({**inside, name.name: Row(group.row)})
        try:
            branches = self.branches(term, inner)
        except Correlated:
            branches = []
        found = self._of_rows(monoid, branches, group)
        if found is not None or isinstance(term, t.Var):
            return found
        # It reads more than its rows: collect those, and go on in the row of the group.
        rows = self.of_group(None, name, scope)
        assert rows is not None
        array = self.array_value(term, scope.having(**{name.name: rows}))
        return array if monoid is None else self.folded(monoid, array, scope)

    def _of_rows(
        self, monoid: Monoid | None, branches: Sequence[Branch], group: Group
    ) -> Value | None:
        if len(branches) != 1:
            return None
        (branch,) = branches
        tests = [each.test for each in branch.block.where]
        if branch.block.items or reads(branch.value, *tests) - {group.grouping.inner}:
            return None
        where = " AND ".join([*([group.where] if group.where else []), *(x.text for x in tests)])
        return self._merged(monoid, branch.value, where, group.grouping.aggregate)

    def _merged(
        self, monoid: Monoid | None, head: Value, where: str, keep: Callable[[Sql], Sql]
    ) -> Value:
        """The heads of rows merged; `keep` makes a column of each aggregate."""
        found = None if monoid is None else aggregated(monoid, head, where)
        if found is not None:
            self.paths.append(f"reduce({monoid}): an aggregate of SQL")
            return mapped(found, keep)
        array = keep(collected(head, where))
        if monoid is None:
            self.paths.append("a bag of rows: collected")
            return array
        self.paths.append(f"reduce({monoid}): a fold of the group's collected rows")
        return self.folded(monoid, array, Scope({}))

    # ---- nested queries --------------------------------------------------------------------

    def nested(self, monoid: Monoid | None, term: t.Term, scope: Scope) -> Value:
        branches = self.branches(term, scope.fresh())
        if not branches:
            raise Correlated
        if not any(branch.block.foreign(branch.value) for branch in branches):
            self.paths.append("a nested query that does not read its row: computed once")
            if len(branches) == 1:
                return self._joined(monoid, branches[0].block, branches[0].value, [], scope)
            found = relation(branches)
            inner = alias()
            return self._joined(monoid, Block([found.item(inner)]), found.over(inner), [], scope)
        try:
            block, head, keys = _by_equalities(branches, scope.block.aliases)
        except Correlated:
            return self._by_domain(monoid, term, scope)
        self.paths.append("a nested query with equalities: a left join with its groups")
        return self._joined(monoid, block, head, keys, scope)

    def _by_domain(self, monoid: Monoid | None, term: t.Term, scope: Scope) -> Value:
        """A nested query that reads its row in any way: for each of the values that it reads, once.

        They are joined with what it ranges over, and the groups by them are joined with the rows.
        """
        name = alias()
        outer: dict[str, Sql] = {}

        def carried(leaf: Sql) -> Sql:
            if not leaf.reads:
                return leaf
            if not leaf.reads <= scope.block.aliases:
                raise Correlated
            numbers = {each: i for i, each in enumerate(outer)}
            number = numbers.get(leaf.text, len(outer))
            outer[leaf.text] = leaf
            return Sql(f"{name}.d{number}", leaf.type, frozenset((name, f"{name}.d{number}")))

        def seen(environment: Environment, names: frozenset[str]) -> dict[str, Bound]:
            found: dict[str, Bound] = {}
            for each in names & environment.keys():
                bound = environment[each]
                if isinstance(bound, Later):
                    inner = seen(bound.environment, t.free(bound.term))
                    found[each] = Later(bound.term, inner, bound.calls)
                elif isinstance(bound, Relation):
                    found[each] = bound
                else:
                    found[each] = mapped(self.bound(bound, scope), carried)
            return found

        environment = seen(scope.environment, t.free(term))
        before = scope.block.copy()
        columns: list[tuple[str, Sql]] = []
        domain = Item(
            name, "CROSS JOIN", lambda: f"({before.select(columns, distinct=True)}) AS {name}"
        )
        branches = self.branches(term, Scope(environment, Block([domain])))
        if not branches or any(each.block.foreign(each.value) for each in branches):
            raise Correlated
        leaves_ = list(outer.values())
        read = frozenset[str]().union(*(each.block.read(each.value) for each in branches))
        used = [i for i in range(len(leaves_)) if f"{name}.d{i}" in read]
        columns += [(f"d{i}", arrays.canonical(leaves_[i])) for i in used]
        keys = [Sql(f"{name}.d{i}", leaves_[i].type, frozenset((name,))) for i in used]
        rows = [Branch(each.block, Tup((Tup(tuple(keys)), each.value))) for each in branches]
        found = relation(rows)
        inner = alias()
        row = found.over(inner)
        pairs = [(leaves_[i], packed(component(component(row, 0), n))) for n, i in enumerate(used)]
        self.paths.append("a nested query that reads its row: a join with the values that it reads")
        head = component(row, 1)
        return self._joined(monoid, Block([found.item(inner)]), head, pairs, scope)

    def _joined(
        self,
        monoid: Monoid | None,
        block: Block,
        head: Value,
        keys: Sequence[tuple[Sql, Sql]],
        scope: Scope,
    ) -> Value:
        """What the rows of a block give, by a join with their groups by keys (outer, inner)."""
        name = alias()
        columns: list[tuple[str, Sql]] = []

        def keep(found: Sql) -> Sql:
            columns.append((f"a{len(columns)}", found))
            text = f"{name}.{columns[-1][0]}"
            zero = zero_of(monoid, found.type) if keys else ""
            if keys and isinstance(found.type, Many):
                zero = arrays.empty(found.type)
            if zero:
                text = f"coalesce({text}, {zero})"
            return Sql(text, found.type, frozenset((name,)))

        value = self._merged(monoid, head, "", keep)
        inner = [arrays.canonical(each) for _, each in keys]
        shown = [(f"k{i}", each) for i, each in enumerate(inner)]

        def text() -> str:
            return f"({block.select([*shown, *columns], inner)}) AS {name}"

        outer = [arrays.canonical(each) for each, _ in keys]
        on = " AND ".join(f"{each.text} <=> {name}.k{i}" for i, each in enumerate(outer))
        join = "LEFT JOIN" if keys else "CROSS JOIN"
        scope.block.add(Item(name, join, text, on, reads(*outer)))
        return value

    # ---- repeat ----------------------------------------------------------------------------

    def part(self, branches: Sequence[Branch]) -> Relation:
        """A relation that has a name in the query."""
        found = relation(branches)
        name = f"mrql_step_{len(self._parts)}"
        self._parts.append((name, found))
        return Relation(lambda: f"SELECT * FROM {name}", found.row)


def _by_equalities(
    branches: Sequence[Branch], visible: frozenset[str]
) -> tuple[Block, Value, list[tuple[Sql, Sql]]]:
    """A nested query that reads its row in equalities alone, apart from these."""
    if len(branches) > 1:
        raise Correlated
    (branch,) = branches
    local = branch.block.aliases
    if reads(branch.value) - local or any(each.reads - local for each in branch.block.items):
        raise Correlated
    keys: list[tuple[Sql, Sql]] = []
    rest: list[Condition] = []
    for each in branch.block.where:
        if each.test.reads <= local:
            rest.append(each)
        else:
            keys.append(_correlation(each, local, visible))
    return Block(branch.block.items, rest), branch.value, keys


def _correlation(
    each: Condition, local: frozenset[str], visible: frozenset[str]
) -> tuple[Sql, Sql]:
    """The outer and the inner side of an equality between a row and the rows of a nested query."""
    if each.sides is not None:
        for outer, inner in (each.sides, each.sides[::-1]):
            if outer.reads <= visible and inner.reads <= local:
                return outer, inner
    raise Correlated


def _sorted_by(key: Value, way: str = "") -> list[str]:
    match key:
        case Inverse():
            return _sorted_by(key.value, "" if way else " DESC")
        case Tup():
            return [text for item in key.items for text in _sorted_by(item, way)]
        case _:
            # NULL is above all numbers and texts.
            nulls = " NULLS FIRST" if way else " NULLS LAST"
            return [f"{leaf.text}{way}{nulls}" for leaf in leaves(key)]


def element_of_columns(columns: Sequence[tuple[str, Value]]) -> Value:
    """The element that a row of a table or view is: what `columns_of` made the columns of."""
    names = [name for name, _ in columns]
    if names == ["value"]:
        return columns[0][1]
    if names == [f"_{i}" for i in range(1, len(names) + 1)]:
        return Tup(tuple(value for _, value in columns))
    return Rec(tuple(columns))


def columns_of(value: Value) -> list[tuple[str, Sql]]:
    """The columns of a row: a record's fields, _1, _2, ... for a tuple, `value` for all else."""
    made = unpacked(value) if isinstance(value, Sql) else value
    match made:
        case Rec():
            named = list(made.fields)
        case Tup() if made != UNIT:
            named = [(f"_{i}", item) for i, item in enumerate(made.items, 1)]
        case _:
            named = [("value", made)]
    return [(quoted(name), _storable(packed(item))) for name, item in named]


def _storable(value: Sql) -> Sql:
    if value.type == VOID:
        return Sql(f"CAST({value.text} AS STRING)", VOID, value.reads)
    if isinstance(value.type, Many) and value.type.element == VOID:
        return Sql(f"CAST({value.text} AS ARRAY<STRING>)", value.type, value.reads)
    return value
