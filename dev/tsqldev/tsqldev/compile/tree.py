"""The syntax tree of T-SQL queries, DML and expressions. Nodes say what was written, nothing of what it means."""

from __future__ import annotations

from dataclasses import dataclass, field

# ---- expressions ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Node:
    """`pos` is an offset in the text; it takes no part in comparing two expressions (GROUP BY)."""

    pos: int = field(default=0, compare=False, kw_only=True)


@dataclass(slots=True)
class Literal(Node):
    kind: str  # int decimal float string nstring binary money null default
    text: str


@dataclass(slots=True)
class Variable(Node):
    name: str  # lower case, with @ or @@


@dataclass(slots=True)
class Name(Node):
    parts: tuple[str, ...]


@dataclass(slots=True)
class Star(Node):
    parts: tuple[str, ...]


@dataclass(slots=True)
class Unary(Node):
    op: str  # - + ~
    operand: Node


@dataclass(slots=True)
class Binary(Node):
    op: str  # + - * / % & | ^
    left: Node
    right: Node


@dataclass(slots=True)
class Compare(Node):
    op: str  # = <> < <= > >= and "is distinct from", "is not distinct from"
    left: Node
    right: Node


@dataclass(slots=True)
class Quantified(Node):
    op: str
    left: Node
    quantifier: str  # ANY ALL
    query: Query


@dataclass(slots=True)
class Logic(Node):
    op: str  # AND OR
    left: Node
    right: Node


@dataclass(slots=True)
class Not(Node):
    operand: Node


@dataclass(slots=True)
class IsNull(Node):
    operand: Node
    negated: bool


@dataclass(slots=True)
class Between(Node):
    operand: Node
    low: Node
    high: Node
    negated: bool


@dataclass(slots=True)
class InList(Node):
    operand: Node
    items: list[Node]
    negated: bool


@dataclass(slots=True)
class InQuery(Node):
    operand: Node
    query: Query
    negated: bool


@dataclass(slots=True)
class Like(Node):
    operand: Node
    pattern: Node
    escape: Node | None
    negated: bool


@dataclass(slots=True)
class Exists(Node):
    query: Query


@dataclass(slots=True)
class Case(Node):
    operand: Node | None
    whens: list[tuple[Node, Node]]
    otherwise: Node | None


@dataclass(slots=True)
class TypeName(Node):
    parts: tuple[str, ...]
    arguments: tuple[str, ...]


@dataclass(slots=True)
class Cast(Node):
    operand: Node
    type: TypeName
    attempt: bool  # TRY_
    convert: bool  # written as CONVERT
    style: Node | None


@dataclass(slots=True)
class Window(Node):
    partition: list[Node]
    order: list[OrderItem]
    frame: str  # canonical text, or empty


@dataclass(slots=True)
class Call(Node):
    name: str  # as written; upper-case it to look it up
    arguments: list[Node]
    schema: tuple[str, ...] = ()
    distinct: bool = False
    star: bool = False
    over: Window | None = None
    within: list[OrderItem] | None = None


@dataclass(slots=True)
class Subquery(Node):
    query: Query


@dataclass(slots=True)
class Collate(Node):
    operand: Node
    collation: str


@dataclass(slots=True)
class AtTimeZone(Node):
    operand: Node
    zone: Node


@dataclass(slots=True)
class Parenthesis(Node):
    operand: Node


# ---- queries ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class OrderItem:
    expression: Node
    descending: bool = False


@dataclass(slots=True)
class Item:
    """A select item: `variable` for SELECT @x = ..., with `op` of a compound assignment (+= ...)."""

    expression: Node
    alias: str | None = None
    variable: str | None = None


@dataclass(slots=True)
class Source:
    pos: int = field(default=0, kw_only=True)


@dataclass(slots=True)
class TableRef(Source):
    parts: tuple[str, ...]
    alias: str | None
    hints: frozenset[str]


@dataclass(slots=True)
class Derived(Source):
    query: Query
    alias: str
    columns: list[str]


@dataclass(slots=True)
class Rows(Source):
    rows: list[list[Node]]
    alias: str
    columns: list[str]


@dataclass(slots=True)
class TableCall(Source):
    """A table-valued function: OPENJSON, STRING_SPLIT, GENERATE_SERIES. `schema` is OPENJSON's WITH clause."""

    name: str
    arguments: list[Node]
    alias: str | None
    columns: list[str]
    schema: list[tuple[str, TypeName, str | None, bool]] | None = None


@dataclass(slots=True)
class BulkFile(Source):
    """OPENROWSET(BULK 'file', SINGLE_BLOB | SINGLE_CLOB | SINGLE_NCLOB): one row of one column."""

    path: str
    kind: str
    alias: str
    columns: list[str]


@dataclass(slots=True)
class Join(Source):
    kind: str  # INNER LEFT RIGHT FULL CROSS, and APPLY ones: CROSS APPLY, OUTER APPLY
    left: Source
    right: Source
    on: Node | None


@dataclass(slots=True)
class Top:
    count: Node
    percent: bool = False
    ties: bool = False


@dataclass(slots=True)
class Select(Node):
    items: list[Item]
    distinct: bool = False
    top: Top | None = None
    into: tuple[str, ...] | None = None
    source: Source | None = None
    where: Node | None = None
    group: list[list[Node]] | None = None  # one list a grouping set
    having: Node | None = None


@dataclass(slots=True)
class SetOperation(Node):
    op: str  # UNION EXCEPT INTERSECT
    all: bool
    left: Query
    right: Query


@dataclass(slots=True)
class Cte:
    name: str
    columns: list[str]
    query: Query


@dataclass(slots=True)
class Query(Node):
    body: Select | SetOperation | Query
    ctes: list[Cte] = field(default_factory=list)
    order: list[OrderItem] = field(default_factory=list)
    offset: Node | None = None
    fetch: Node | None = None
    json: tuple[str, ...] = ()
    xml: bool = False  # FOR XML PATH(''): the rows as one text


# ---- statements -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Output:
    items: list[Item]
    into: tuple[str, ...] | None = None
    columns: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Insert(Node):
    target: TableRef
    columns: list[str] | None
    outputs: list[Output]
    rows: list[list[Node]] | None  # VALUES
    query: Query | None
    ctes: list[Cte]
    top: Top | None = None


@dataclass(slots=True)
class Assignment:
    """SET column = value, SET @variable = value, or SET @variable = column = value."""

    column: tuple[str, ...] | None
    variable: str | None
    value: Node


@dataclass(slots=True)
class Update(Node):
    target: TableRef
    assignments: list[Assignment]
    outputs: list[Output]
    source: Source | None
    where: Node | None
    ctes: list[Cte]
    top: Top | None = None


@dataclass(slots=True)
class Delete(Node):
    target: TableRef
    outputs: list[Output]
    source: Source | None
    where: Node | None
    ctes: list[Cte]
    top: Top | None = None


@dataclass(slots=True)
class When:
    matched: str  # MATCHED, TARGET (not matched by target), SOURCE (not matched by source)
    condition: Node | None
    action: str  # UPDATE DELETE INSERT
    assignments: list[Assignment] = field(default_factory=list)
    columns: list[str] | None = None
    values: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class Merge(Node):
    target: TableRef
    source: Source
    on: Node
    whens: list[When]
    outputs: list[Output]
    ctes: list[Cte]


@dataclass(slots=True)
class Truncate(Node):
    target: TableRef


Statement = Query | Insert | Update | Delete | Merge | Truncate
