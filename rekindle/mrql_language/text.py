"""Terms as text, in the paper's notation; variables are numbered only where a name comes again."""

from __future__ import annotations

from rekindle.mrql_language import terms as t
from rekindle.mrql_language.printing import show

_INFIX = ("+", "-", "*", "/", "mod", "%", "=", "<>", "<", "<=", ">", ">=", "and", "or")
_OPERATORS: dict[type, str] = {
    t.CMap: "cMap",
    t.GroupBy: "groupBy",
    t.CoGroup: "coGroup",
    t.SMap1: "sMap1",
    t.SMap2: "sMap2",
    t.SMap3: "sMap3",
    t.Swap: "swap",
    t.Forget: "forget",
    t.Mix: "mix",
    t.KMap: "kMap",
}


def text(term: t.Term) -> str:
    """The term on one line.

    >>> from rekindle.mrql_language.terms import Braces, CMap, Lambda, Source, Var
    >>> text(CMap(Lambda("x.7", Braces((Var("x.7"),))), Source("S", "stream")))
    'cMap(λx. {x}, S)'
    """
    return _Writer().term(term)


class _Writer:
    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def name(self, name: str) -> str:
        if name not in self._names:
            base = name.split(".")[0]
            taken = set(self._names.values())
            found, number = base, 1
            while found in taken and base != "_":
                number += 1
                found = f"{base}{number}"
            self._names[name] = found
        return self._names[name]

    def shape(self, shape: t.Shape) -> str:
        if isinstance(shape, str):
            return self.name(shape)
        return f"({', '.join(self.shape(part) for part in shape)})"

    def all(self, terms: tuple[t.Term, ...]) -> str:
        return ", ".join(self.term(term) for term in terms)

    def term(self, term: t.Term) -> str:
        match term:
            case t.Var() | t.Stored():
                return self.name(term.name)
            case t.Constant():
                return show(term.value)
            case t.Source():
                return term.name
            case t.Read():
                return f"{term.kind}({self.all(term.arguments)})"
            case t.Tuple():
                return f"({self.all(term.items)})"
            case t.MakeRecord():
                items = zip(term.labels, term.items, strict=True)
                return f"<{', '.join(f'{label}: {self.term(item)}' for label, item in items)}>"
            case t.Project():
                return f"{self.term(term.operand)}#{term.index}"
            case t.Field():
                return f"{self.term(term.operand)}.{term.name}"
            case t.Call():
                if term.function in _INFIX and len(term.arguments) == 2:
                    left, right = (self.operand(side) for side in term.arguments)
                    return f"{left} {term.function} {right}"
                if term.function.startswith("as "):
                    return f"{self.operand(term.arguments[0])} {term.function}"
                return f"{term.function}({self.all(term.arguments)})"
            case t.Invoke():
                return f"{term.function}({self.all(term.arguments)})"
            case t.Build():
                return f"{term.constructor}({self.all(term.arguments)})"
            case t.If():
                then, other = self.term(term.then), self.term(term.otherwise)
                return f"if {self.term(term.condition)} then {then} else {other}"
            case t.Match():
                subject, pattern = self.term(term.subject), self.term(term.pattern)
                body, other = self.term(term.body), self.term(term.otherwise)
                return f"case {subject} {{ {pattern}: {body} | *: {other} }}"
            case t.Lambda():
                return f"λ{self.shape(term.shape)}. {self.term(term.body)}"
            case t.Let():
                value = self.term(term.value)
                taken = self.shape(term.function.shape)
                return f"let {taken} = {value} in {self.term(term.function.body)}"
            case t.Braces():
                return f"{{{self.all(term.items)}}}"
            case t.Enumerate():
                return f"[{self.all(term.items)}]"
            case t.Union():
                return f"{self.term(term.left)} ⊎ {self.term(term.right)}"
            case t.OrderBy():
                limit = "" if term.limit is None else f", {self.term(term.limit)}"
                return f"orderBy({self.term(term.operand)}{limit})"
            case t.Reduce():
                return f"reduce({term.monoid}, {self.term(term.operand)})"
            case t.Repeat():
                limit = "" if term.limit is None else f"{self.term(term.limit)}, "
                return f"repeat({self.term(term.step)}, {limit}{self.term(term.start)})"
            case _:
                return f"{_OPERATORS[type(term)]}({self.all(tuple(t.children(term)))})"

    def operand(self, term: t.Term) -> str:
        written = self.term(term)
        nested = isinstance(term, t.Call) and (
            term.function in _INFIX or term.function.startswith("as ")
        )
        return f"({written})" if nested or isinstance(term, t.If | t.Let) else written
