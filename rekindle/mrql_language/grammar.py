r"""The grammar of MRQL, for lark's LALR parser.

Three places where a token is not what it looks like:

  `<`      opens a record when a label and a colon follow, and compares otherwise
  `>`      closes a record if no other bracket was opened within it, and compares otherwise
           (`RecordBrackets`; a comparison in a record is written in parentheses)
  `all`    is a word of `debug all`, of `all p in e: c` and of `all(select ...)`

A template `[xml| ... |]` and a path `xpath(...)` are one token each: what is in them has a grammar
of its own, and a hole in a template is read by a parser of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from lark import Token

GRAMMAR = r"""
    statement: expr                                            -> evaluate
        | (INCR | LINEAGE | DEBUG | DEBUG_ALL) expr            -> evaluate_in
        | NAME "=" expr                                        -> assign
        | STORE NAME ":=" expr                                 -> store_variable
        | (STORE | DUMP) STRING FROM expr                      -> store_file
        | TYPE NAME "=" typing                                   -> type_definition
        | DATA NAME "=" constructor ("|" constructor)*          -> data_definition
        | FUNCTION NAME "(" parameters ")" ":" typing "{" expr "}"  -> function_definition
        | MACRO NAME "(" names ")" "{" expr "}"                -> macro_definition
        | AGGREGATION NAME "(" expr "," expr ("," expr)? ")" ":" typing -> aggregation_definition
        | IMPORT (NAME ("," NAME)* FROM)? STRING                -> outside
        | PARSER NAME "=" STRING                                -> outside
        | INCLUDE STRING                                        -> outside
    constructor: NAME ":" typing
    parameters: (parameter ("," parameter)*)?
    parameter: NAME ":" typing
    names: (NAME ("," NAME)*)?

    ?expr: unions | select | if | let | quantified | repeat | lambda
    if: IF expr THEN expr ELSE expr
    let: LET pattern "=" expr IN expr
    quantified: (SOME | ALL) _bindings ":" expr
    repeat: REPEAT pattern "=" expr STEP expr [LIMIT expr]
    lambda: "\\" "(" parameters ")" ":" typing "." expr

    select: SELECT [DISTINCT] expr FROM bindings [where] [grouping] [ordering]
    where: WHERE expr
    bindings: _bindings
    _bindings: binding ("," binding)*
    binding: pattern IN expr | pattern EQ expr
    grouping: GROUP BY pattern [":" expr] [having]
    having: HAVING expr
    ordering: ORDER BY order_key ("," order_key)* [limit]
    order_key: expr [ASC | DESC]
    limit: LIMIT expr

    ?unions: ors | unions (UNION | INTERSECT | EXCEPT) or_open  -> binary
    ?or_open: ors | select
    ?ors: ands | ors OR ands                                     -> binary
    ?ands: nots | ands AND nots                                  -> binary
    ?nots: compare | NOT nots                                   -> unary
    ?compare: sum | sum (EQ | NE | LT | LE | GT | GE) sum    -> binary
    ?sum: product | sum (PLUS | MINUS) product               -> binary
    ?product: ranges | product (STAR | SLASH | MOD | PERCENT) ranges -> binary
    ?ranges: unaries | unaries (RANGE | LONG_RANGE) unaries         -> range
    ?unaries: postfix | (MINUS | PLUS | EXISTS) unaries           -> unary
    ?postfix: atom
        | postfix "." NAME                                     -> attribute
        | postfix DOT_AT (NAME | STAR)                         -> xml_attribute
        | postfix DOT_STAR                                     -> children
        | postfix "#" INT                                      -> component
        | postfix "[" expr "]"                                -> index
        | postfix "[" expr ":" expr "]"                      -> slice
        | postfix AS typing                                     -> cast
    ?atom: NAME                                                 -> name
        | INT                                                   -> integer
        | DECIMAL                                               -> decimal
        | STRING                                                -> string
        | TEMPLATE                                              -> template
        | XPATH                                                 -> path
        | TYPE "(" typing ")"                                    -> type_argument
        | TRACE "(" expr ")"                                   -> trace
        | NAME "(" [arguments] ")"                              -> call
        | (SOME | ALL) "(" select ")"                           -> call_select
        | CASE expr "{" branch ("|" branch)* "}"               -> case
        | "(" ")"                                               -> tuple
        | "(" expr ")"
        | "(" expr ("," expr)+ ")"                            -> tuple
        | "{" [arguments] "}"                                   -> bag
        | "[" [arguments] "]"                                   -> list
        | OPEN_RECORD field ("," field)* CLOSE_RECORD           -> record
    arguments: expr ("," expr)*
    field: NAME ":" expr
    branch: pattern ":" expr

    ?pattern: bare_pattern | bare_pattern AS typing            -> typed_pattern
    ?bare_pattern: NAME                                         -> variable
        | STAR                                                  -> anything
        | INT                                                   -> constant_integer
        | MINUS INT                                             -> constant_integer
        | DECIMAL                                               -> constant_decimal
        | STRING                                                -> constant_string
        | TEMPLATE                                              -> constant_template
        | "(" ")"                                               -> tuple_pattern
        | "(" pattern ")"
        | "(" pattern ("," pattern)+ ")"                      -> tuple_pattern
        | OPEN_RECORD field_pattern ("," field_pattern)* CLOSE_RECORD -> record_pattern
        | "[" [pattern ("," pattern)*] "]"                    -> list_pattern
        | NAME "(" pattern ("," pattern)* ")"                 -> constructor_pattern
    field_pattern: NAME ":" pattern

    ?typing: NAME                                                 -> named_type
        | NAME "(" typing ")"                                    -> collection_type
        | "(" [typing ("," typing)*] ")"                          -> tuple_type
        | OPEN_RECORD field_type ("," field_type)* CLOSE_RECORD -> record_type
        | "{" typing "}"                                         -> bag_type
        | "[" typing "]"                                         -> list_type
        | "!" typing
    field_type: NAME ":" typing

    %declare CLOSE_RECORD
    OPEN_RECORD.9: /<(?=\s*[A-Za-z]\w*\s*:)/
    TEMPLATE.9: /\[(xml|json)\|.*?\|\]/is
    XPATH.9: /xpath\s*\((?:[^()"']|"[^"]*"|'[^']*')*\)/i
    DEBUG_ALL.9: /debug\s+all\b/i
    KEYWORDS
    NAME: /[A-Za-z]\w*/
    DECIMAL.3: /\d+\.\d+([eE][-+]?\d+)?|\d+[eE][-+]?\d+/
    INT.2: /\d+/
    STRING: /"[^"]*"|'[^']*'/s
    LONG_RANGE.4: "..."
    RANGE.3: ".."
    DOT_AT.3: ".@"
    DOT_STAR.3: ".*"
    EQ: "="
    NE.2: "<>"
    LE.2: "<="
    GE.2: ">="
    LT: "<"
    GT: ">"
    PLUS: "+"
    MINUS: "-"
    STAR: "*"
    SLASH: "/"
    PERCENT: "%"
    COMMENT.9: /\/\/[^\n]*|\/\*.*?\*\//s
    %ignore COMMENT
    %ignore /\s+/
"""
_WORDS = (
    "if then else select from where group by having order asc desc limit distinct in as let and or "
    "not union intersect except exists some all function macro aggregation type data case repeat "
    "step store dump incr lineage debug trace import include parser mod"
)
KEYWORDS = tuple(_WORDS.split())
GRAMMAR = GRAMMAR.replace(
    "KEYWORDS\n", "\n    ".join(f"{word.upper()}.5: /{word}\\b/i" for word in KEYWORDS) + "\n"
)

_OPENING = {"LPAR": "RPAR", "LBRACE": "RBRACE", "LSQB": "RSQB", "OPEN_RECORD": "CLOSE_RECORD"}


class RecordBrackets:
    """Makes a `>` that ends a record a token of its own."""

    always_accept = ("GT",)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        """The tokens, with `>` as CLOSE_RECORD where the innermost open bracket is a record."""
        closing: list[str] = []
        for token in stream:
            if token.type in _OPENING:
                closing.append(_OPENING[token.type])
            elif token.type == "GT" and closing and closing[-1] == "CLOSE_RECORD":
                closing.pop()
                token = Token.new_borrow_pos("CLOSE_RECORD", str(token), token)
            elif closing and token.type == closing[-1]:
                closing.pop()
            yield token
