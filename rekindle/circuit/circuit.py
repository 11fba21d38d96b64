"""From an incremental stream to the nodes that a step runs.

The stream is what algorithm 4.6 derived (`rekindle.incremental`). Lowering gives each integral a
trace: Integrate(x) under a join becomes an arrangement of x by the join's key, the integral inside
a per-key update becomes that operator's own state. Nodes with equal fingerprints are shared, also
between views; an arrangement that a table's or view's own contents already provide is not built.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from rekindle.calculus import terms
from rekindle.calculus.nested_time import stamped_bodies
from rekindle.calculus.scalars import Column, Scalar
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import (
    STAMPED,
    Aggregate,
    Distinct,
    Filter,
    Fix,
    FlatMap,
    Join,
    Map,
    Negate,
    Range,
    Source,
    Term,
    UnionAll,
    sources,
)
from rekindle.calculus.text import to_tree_text_with_table
from rekindle.circuit.nodes import (
    Arrangement,
    Constant,
    DistinctRows,
    Exchange,
    Feedback,
    Group,
    GroupMap,
    HalfJoin,
    IndexedView,
    Moment,
    Node,
    Nulls,
    Side,
    Table,
    Variable,
    View,
    fingerprint,
)
from rekindle.circuit.ranges import Index, index_of, lookup_of, other, worthwhile
from rekindle.circuit.stages import (
    Branch,
    Finish,
    Generate,
    LinearForm,
    Match,
    Project,
    Where,
)
from rekindle.errors import RekindleError
from rekindle.incremental.pipeline import derive_stamped
from rekindle.incremental.stream import (
    Apply,
    Delay,
    Differentiate,
    Incremental,
    Input,
    Integrate,
    Stream,
    Sum,
    Update,
)
from rekindle.incremental.stream_text import stream_text
from rekindle.incremental.traversal import fold, joins, nodes, share

MOST_BRANCHES = 8
"""A sum of more branches that several nodes read is added up before they read it."""


@dataclass(frozen=True, slots=True)
class Scope:
    """A recursion: its nodes, inputs first, among them those that compute its relations.

    The recursions inside it, each under the last of its nodes, come to their own end at every
    iteration; their nodes are members too.
    """

    members: tuple[Node, ...]
    feedbacks: tuple[Feedback, ...]
    inner: Mapping[str, Scope] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """How many scopes its rows are stamped by."""
        return self.feedbacks[0].variable.depth

    @property
    def led_back(self) -> tuple[Feedback, ...]:
        """Those whose relation the recursion reads: their changes come back an iteration later.

        A relation that nothing reads any more, since the optimiser found a rule to be empty, is a
        part of the recursion all the same if it reads one that is led back.
        """
        variables = {node.id for node in self.members if isinstance(node, Variable)}
        return tuple(feedback for feedback in self.feedbacks if feedback.variable.id in variables)


@dataclass(slots=True)
class Circuit:
    """All nodes of a database, inputs before what reads them."""

    nodes: dict[str, Node] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    _forms: dict[int, LinearForm] = field(default_factory=dict, repr=False)
    _integrated: set[tuple[int, str]] = field(default_factory=set, repr=False)
    """The streams that joins of the view read an integral of, each with the join's index."""
    _variables: dict[str, str] = field(default_factory=dict, repr=False)
    _uses: Mapping[int, int] = field(default_factory=dict, repr=False)
    _most_branches: int | None = field(default=MOST_BRANCHES, repr=False)
    _scopes: dict[str, Scope] | None = field(default=None, repr=False)

    def copy(self) -> Circuit:
        """A circuit that can grow while this one stays."""
        return Circuit(dict(self.nodes), dict(self.names))

    def table(self, table: Table) -> None:
        self.nodes[table.id] = table
        self.names[table.name] = table.id

    def view(
        self,
        name: str,
        stream: Stream,
        schema: Schema,
        stored: str = "",
        own: str = "",
        index: tuple[int, ...] = (),
    ) -> View:
        """Add the nodes of a view; what is there already is shared.

        A view with an identity of its `own` keeps it when its definition changes, and with it the
        nodes of those that read it; it is shared with no other view, and added in its own place.

        Its rows are found by the columns of the `index`, if it has one.

        A view that is `stored` under an id has the nodes that it was stored with: one that was made
        before sums were gathered has none that gather them.
        """
        self._scopes = None
        before = dict(self.nodes)
        view = self._viewed(name, stream, schema, index)
        if own:
            view = self.nodes[own] = view.called(own)
            self.names[name] = own
            return view
        if stored and view.id != stored:
            gathered, kept, self.nodes = view, self.nodes, before.copy()
            self._most_branches = None
            view = self._viewed(name, stream, schema, index)
            self._most_branches = MOST_BRANCHES
            if view.id != stored:
                view, self.nodes = gathered, kept
        self.nodes.setdefault(view.id, view)
        self.names[name] = view.id
        return view

    def adopt(self, name: str, nodes: Iterable[Node]) -> None:
        """Add a view by nodes that exist, inputs first, the view's last."""
        self._scopes = None
        for node in nodes:
            self.names[name] = self._add(node)

    def _viewed(self, name: str, stream: Stream, schema: Schema, index: tuple[int, ...]) -> View:
        form = LinearForm(self._lowered(stream).branches, schema)
        return IndexedView(name, form, index) if index else View(name, form)

    def drop(self, name: str) -> tuple[Node, ...]:
        """Remove a table or view; gives the nodes that nothing needs any more."""
        del self.names[name]
        return self.prune()

    def prune(self) -> tuple[Node, ...]:
        """Remove the nodes that no table or view needs, and give them."""
        needed: set[str] = set()
        for root in self.names.values():
            self._mark(root, needed)
        self._scopes = None
        gone = tuple(node for key, node in self.nodes.items() if key not in needed)
        for node in gone:
            del self.nodes[node.id]
        return gone

    def reachable(self, root: str) -> tuple[Node, ...]:
        """The nodes that `root` depends on, inputs first, itself last."""
        found: set[str] = set()
        self._mark(root, found)
        return tuple(node for key, node in self.nodes.items() if key in found)

    def readers(self) -> Mapping[str, tuple[str, ...]]:
        """For each node, the nodes that read it."""
        found: dict[str, list[str]] = {key: [] for key in self.nodes}
        for key, node in self.nodes.items():
            for source in node.inputs:
                found[source].append(key)
        return {key: tuple(readers) for key, readers in found.items()}

    def _mark(self, key: str, found: set[str]) -> None:
        waiting = [key]
        while waiting:
            key = waiting.pop()
            if key not in found:
                found.add(key)
                waiting += self.nodes[key].inputs

    def _add(self, node: Node) -> str:
        self.nodes.setdefault(node.id, node)
        return node.id

    def _lowered(self, stream: Stream) -> LinearForm:
        """The form of a whole stream."""
        shared = share(stream)
        self._forms = {}
        self._uses = _uses(shared)
        self._integrated = {
            _by_index(_integrand(stream), index.stored)
            for join in joins(shared)
            for stream, index in zip(join.inputs, self._indexes(join), strict=True)
            if isinstance(stream, Integrate | Delay)
        }
        for stream in _landings(shared):
            self._form(stream)
        return self._form(shared)

    def _form(self, stream: Stream) -> LinearForm:
        """The stream as a sum of branches over nodes.

        A stream is a graph: each of its nodes is visited once, found again by identity.
        """
        if id(stream) not in self._forms:
            self._forms[id(stream)] = self._gathered(stream, self._lower(stream))
        return self._forms[id(stream)]

    def _gathered(self, stream: Stream, form: LinearForm) -> LinearForm:
        """A long sum that several nodes read as one branch: it is added up once in a step.

        An outer join passes on the rows of either side beside its pairs. If every reader had all
        branches of a chain of n such joins, its circuit would grow with n².
        """
        most = None if self._variables else self._most_branches
        if most is None or len(form.branches) <= most or self._uses.get(id(stream), 0) < 2:
            return form
        node = Exchange(form, ())
        return LinearForm((Branch(self._add(node), node.schema),), node.schema)

    def _lower(self, stream: Stream) -> LinearForm:
        match stream:
            case Input():
                return self._input(stream.source)
            case Sum():
                return self._sum(stream.inputs)
            case Apply():
                return self._apply(stream.operator, stream.inputs)
            case Update():
                return self._update(stream.operator, stream.change)
            case Integrate() | Differentiate() | Delay() | Incremental():
                raise RekindleError(
                    "a stream that is not fully incremental reached the circuit: "
                    f"{stream_text(stream)}"
                )
        assert_never(stream)

    def _input(self, source: Source | terms.Constant | Fix) -> LinearForm:
        if isinstance(source, Fix):
            return self._scope(source)
        if isinstance(source, terms.Constant):
            key = self._add(Constant(source.schema, source.relation))
        else:
            key = self._variables.get(source.name) or self.names[source.name]
        held = self.nodes[key].schema
        branch = Branch(key, held)
        if len(held) > len(source.schema):
            # The table got columns after the view was defined.
            named = enumerate(held.fields[: len(source.schema)])
            branch = branch.then(
                Project(tuple((f.name, Column(i, f.type, f.nullable)) for i, f in named))
            )
        return LinearForm((branch,), source.schema)

    def _scope(self, fix: Fix) -> LinearForm:
        """The nodes of a recursion; what it gives, with the iterations forgotten."""
        text, opaque = to_tree_text_with_table(replace(fix, output=0))
        digest = fingerprint(
            text,
            *(getattr(part, "text", part) for part in opaque),
            *(self._variables.get(name) or self.names[name] for name in sources(fix)),
        )
        outside = [self.nodes[self._variables[n]] for n in sources(fix) if n in self._variables]
        depth = 1 + max((node.depth for node in outside if isinstance(node, Variable)), default=0)
        variables = [
            Variable(digest, name, fix.schema_of(name) + STAMPED, fix.limit, depth, fix.bound)
            for name in fix.names
        ]
        if variables[fix.output].feedback not in self.nodes:
            outer, forms, integrated = self._variables, self._forms, self._integrated
            uses = self._uses
            self._variables = {**outer, **{v.name: self._add(v) for v in variables}}
            for variable, body in zip(variables, stamped_bodies(fix), strict=True):
                form = self._lowered(derive_stamped(body))
                self._add(Feedback(variable, LinearForm(form.branches, variable.schema)))
            self._variables, self._forms, self._integrated = outer, forms, integrated
            self._uses = uses
        feedback = self.nodes[variables[fix.output].feedback]
        fields = enumerate(fix.schema.fields)
        kept = Project(tuple((f.name, Column(i, f.type, f.nullable)) for i, f in fields))
        return LinearForm((Branch(feedback.id, feedback.schema).then(kept),), fix.schema)

    @property
    def scopes(self) -> Mapping[str, Scope]:
        """The recursions that are in no other, each under the last of its nodes."""
        if self._scopes is None:
            loops: dict[str, list[Feedback]] = {}
            for node in self.nodes.values():
                if isinstance(node, Feedback):
                    loops.setdefault(node.variable.scope, []).append(node)
            found = [
                Scope(self._members(feedbacks), tuple(feedbacks)) for feedbacks in loops.values()
            ]
            self._scopes = _nested([scope for scope in found if scope.led_back])
        return self._scopes

    def _members(self, feedbacks: list[Feedback]) -> tuple[Node, ...]:
        """The nodes that depend on a variable of the recursion and that feed it.

        The way around leads through its own variables and those of recursions inside it, and not
        through those of recursions that it is in itself.
        """
        depth = feedbacks[0].variable.depth
        inside = {feedback.variable.id for feedback in feedbacks}
        feeding: set[str] = set()
        waiting = [feedback.id for feedback in feedbacks]
        while waiting:
            node = self.nodes.get(waiting.pop())
            if node is None or node.id in feeding:
                continue
            if not isinstance(node, Variable) or node.depth >= depth:
                feeding.add(node.id)
                waiting += node.inputs
        # The variables of a recursion inside it come before what feeds them: again until it holds.
        before = 0
        while before < len(inside):
            before = len(inside)
            for found in self.nodes.values():
                if found.id in feeding and not inside.isdisjoint(found.inputs):
                    inside.add(found.id)
        inside |= {feedback.id for feedback in feedbacks}
        return tuple(node for node in self.nodes.values() if node.id in inside)

    def _sum(self, parts: tuple[Stream, ...]) -> LinearForm:
        forms = [self._form(part) for part in parts]
        branches = tuple(branch for form in forms for branch in form.branches)
        return LinearForm(branches, forms[0].schema)

    def _apply(self, operator: Term, inputs: tuple[Stream, ...]) -> LinearForm:
        match operator:
            case Map():
                return self._form(inputs[0]).then(Project(operator.outputs))
            case Filter():
                return self._form(inputs[0]).then(Where(operator.predicate))
            case FlatMap():
                return self._form(inputs[0]).then(Generate(operator.generator, operator.kept))
            case Negate():
                return self._form(inputs[0]).negated()
            case UnionAll():
                return self._sum(inputs)
            case Join():
                return self._half_join(Apply(operator, inputs), operator)
            case (
                Source()
                | terms.Constant()
                | Distinct()
                | Aggregate()
                | terms.PerGroup()
                | terms.SemiJoin()
                | terms.OuterJoin()
                | Fix()
                | terms.Triggered()
            ):
                raise RekindleError(f"{type(operator).__name__} cannot be applied to a change")
        assert_never(operator)

    def _half_join(self, applied: Apply, join: Join) -> LinearForm:
        """I(a) ⋈ Δb, Δa ⋈ z⁻¹(I(b)), or Δa ⋈ Δb."""
        left, right = applied.inputs
        side = Side.RIGHT if isinstance(left, Integrate | Delay) else Side.LEFT
        ours, theirs = self._indexes(applied)
        both = (left, ours), (right, theirs)
        (change, index), (against, held) = both if side is Side.LEFT else reversed(both)
        ranges = self._ranges(applied)
        lookup = lookup_of(join, side, ranges)
        match against:
            case Delay():
                moment, kept = Moment.BEFORE, self._indexed(_integrand(against), held.stored)
            case Integrate():
                moment, kept = Moment.AFTER, self._indexed(_integrand(against), held.stored)
            case _:
                moment = Moment.DURING
                kept = self._add(Exchange(self._form(against), held.keys))
        node = HalfJoin(
            change=self._by(change, index),
            against=kept,
            moment=moment,
            change_side=side,
            schema=join.schema,
            left_width=len(join.left.schema),
            lookup=lookup,
        )
        range_ = ranges.get(other(side))
        match_ = Match(
            join.left_keys,
            join.right_keys,
            join.residual,
            len(join.left.schema),
            decides=range_ is not None and range_.decides,
        )
        branch = Branch(self._add(node), join.schema)
        if join.left_keys or join.residual is not None:
            branch = branch.then(match_)
        return LinearForm((branch,), join.schema)

    def _ranges(self, applied: Apply) -> dict[Side, Range]:
        """The ranges that the halves of a join look up; none where two changes meet."""
        join = applied.operator
        assert isinstance(join, Join)
        if not any(isinstance(stream, Integrate | Delay) for stream in applied.inputs):
            return {}
        sides = zip(Side, applied.inputs, (join.left_keys, join.right_keys), strict=True)
        unique = [
            side for side, stream, keys in sides if keys and self._holds(_integrand(stream), keys)
        ]
        return worthwhile(join, unique)

    def _indexes(self, applied: Apply) -> tuple[Index, Index]:
        """What the left and the right side of a join are arranged by."""
        join, ranges = applied.operator, self._ranges(applied)
        assert isinstance(join, Join)
        return index_of(join, Side.LEFT, ranges), index_of(join, Side.RIGHT, ranges)

    def _holds(self, stream: Stream, keys: tuple[Scalar, ...]) -> bool:
        """Is the stream that of a table whose primary key the keys are?"""
        if not isinstance(stream, Input) or not isinstance(stream.source, Source):
            return False
        node = self.nodes.get(self.names.get(stream.source.name, ""))
        return isinstance(node, Table) and node.provides(keys)

    def _update(self, operator: Term, change: Stream) -> LinearForm:
        form = self._form(change)
        match operator:
            case Distinct():
                arrangement = self._arranged(form, None, stamps=operator.stamps)
                node: Node = DistinctRows(arrangement, form.schema, operator.stamps)
                return LinearForm((Branch(self._add(node), form.schema),), form.schema)
            case Aggregate():
                node = Group(
                    form, operator.keys, operator.measures, operator.schema, operator.merged
                )
                keys = Schema(operator.schema.fields[: len(operator.keys)])
                branch = Branch(self._add(node), operator.schema).then(
                    Finish(keys, operator.measures)
                )
                return LinearForm((branch,), operator.schema)
            case terms.PerGroup():
                return self._group_map(operator, form)
        raise RekindleError(f"{type(operator).__name__} has no per-key update")

    def _group_map(self, operator: terms.PerGroup, form: LinearForm) -> LinearForm:
        fields = form.schema.fields
        keys = tuple(Column(i, fields[i].type, fields[i].nullable) for i in operator.keys)
        # Without NULLs in its keys an arrangement for groups serves joins too.
        nulls = Nulls.KEPT if any(key.nullable for key in keys) else Nulls.LEFT_OUT
        reach = operator.reach
        arrangement = self._arranged(
            form, keys, nulls, None if reach is None else reach.column, operator.stamps
        )
        node = GroupMap(arrangement, operator.keys, operator.body, reach, operator.stamps)
        given = self._add(node)
        if node.kept is not None:
            given = self._add(node.kept)
        return LinearForm((Branch(given, node.schema),), node.schema)

    def _by(self, change: Stream, index: Index) -> str:
        """A change by a join's index: kept where a join reads its integral, else routed only."""
        if _by_index(change, index) in self._integrated:
            return self._indexed(change, index)
        form = self._marked(change, index)
        return self._provided(form, index.keys) or self._add(Exchange(form, index.keys))

    def _indexed(self, stream: Stream, index: Index) -> str:
        """The node whose trace is the stream's integral by a join's index."""
        order = None if index.order is None else len(self._form(stream).schema) + index.order
        return self._arranged(self._marked(stream, index), index.keys, order=order)

    def _marked(self, stream: Stream, index: Index) -> LinearForm:
        """The stream's rows with the marks of an index."""
        form = self._form(stream)
        return form.then(index.marked(form.schema)) if index.marks else form

    def _arranged(
        self,
        form: LinearForm,
        keys: tuple[Scalar, ...] | None,
        nulls: Nulls = Nulls.LEFT_OUT,
        order: int | None = None,
        stamps: int = 0,
    ) -> str:
        """The node whose trace is the form's integral by `keys`, or by the row."""
        provided = None if order is not None or stamps else self._provided(form, keys)
        return provided or self._add(Arrangement(form, keys, nulls, order, stamps))

    def _provided(self, form: LinearForm, keys: tuple[Scalar, ...] | None) -> str | None:
        """The table or view whose own contents are the form's integral by `keys`, if one is."""
        if len(form.branches) != 1:
            return None
        (branch,) = form.branches
        node = self.nodes[branch.node]
        serves = not branch.stages and branch.sign == 1 and node.provides(keys)
        return node.id if serves else None


def _nested(scopes: list[Scope]) -> dict[str, Scope]:
    """Scopes that contain others hold them; those that are left, each under its last node."""
    found: dict[str, Scope] = {}
    for scope in sorted(scopes, key=lambda scope: len(scope.members)):
        members = {node.id for node in scope.members}
        inner = {key: other for key, other in found.items() if key in members}
        found = {key: other for key, other in found.items() if key not in inner}
        found[scope.members[-1].id] = replace(scope, inner=inner)
    return found


def _uses(stream: Stream) -> Counter[int]:
    """How many nodes read each node, by its identity; an integral of it is one of them."""
    return Counter(id(child) for node in nodes(stream) for child in node.inputs)


_STRIDE = 30
"""So many levels of a stream are lowered by one call inside another."""


def _landings(stream: Stream) -> list[Stream]:
    """Nodes to lower before the root, inputs first, so that none is far from what it needs."""
    found: list[Stream] = []

    def deepen(node: Stream, below: tuple[int, ...]) -> int:
        depth = 1 + max(below, default=0)
        if depth % _STRIDE == 0:
            landing = _integrand(node)
            if not isinstance(landing, Differentiate | Incremental):
                found.append(landing)
        return depth

    fold(stream, deepen)
    return found


def _by_index(stream: Stream, index: Index) -> tuple[int, str]:
    return id(stream), index.text


def _integrand(stream: Stream) -> Stream:
    """What an integral sums up: x of x, I(x) and z⁻¹(I(x))."""
    while isinstance(stream, Integrate | Delay):
        stream = stream.child
    return stream
