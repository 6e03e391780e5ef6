"""Every place of a module where one operator, constant or branch can be another; text in, values out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

_COMPARISONS: dict[type[ast.AST], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip
_ARITHMETIC: dict[type[ast.AST], str] = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*", ast.Pow: "*",
    ast.BitOr: "&", ast.BitAnd: "|", ast.LShift: ">>", ast.RShift: "<<",
}  # fmt: skip
_OPERATOR = re.compile(rb"not\s+in\b|is\s+not\b|in\b|is\b|and\b|or\b|[-+*/%<>=!&|]+")
_COMMENT = re.compile(rb"#[^\n]*")
_ANNOTATIONS = ("annotation", "returns", "type_params", "decorator_list")


@dataclass(frozen=True)
class Change:
    """Bytes `start` to `end` of a module become `after`; `line` is where a test has to come by."""

    kind: str
    line: int
    start: int
    end: int
    before: str
    after: str

    def apply(self, source: bytes) -> bytes:
        """The module with the fault."""
        return source[: self.start] + self.after.encode() + source[self.end :]


def changes(source: bytes) -> list[Change]:
    """All changes of a module in the order of their places; annotations, decorators, types and text stay as they are, and so
    does `strict` of zip, which like `assert` states what always holds."""
    lines = [0]
    for line in source.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    found = list(_Finder(source, lines).of(ast.parse(source)))
    return sorted(found, key=lambda change: (change.start, change.end, change.kind, change.after))


class _Finder:
    def __init__(self, source: bytes, lines: list[int]) -> None:
        self._source, self._lines = source, lines

    def of(self, node: ast.AST) -> Iterator[Change]:
        """The changes of a node and of all below it."""
        if isinstance(node, ast.keyword) and node.arg == "strict":
            return
        yield from self._own(node)
        for name, value in ast.iter_fields(node):
            if name in _ANNOTATIONS or (isinstance(node, ast.JoinedStr) and name == "values"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from self.of(child)

    def _own(self, node: ast.AST) -> Iterator[Change]:
        match node:
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                for before, operator, after in zip([left, *comparators], ops, comparators, strict=False):
                    yield self._between("operator", before, after, _COMPARISONS[type(operator)])
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _ARITHMETIC and not _text(node):
                yield self._between("operator", left, right, _ARITHMETIC[type(operator)])
            case ast.BoolOp(op=operator, values=values):
                for before, after in pairwise(values):
                    yield self._between("operator", before, after, "or" if isinstance(operator, ast.And) else "and")
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                start = self._place(node)[0]
                word = re.match(rb"not\s*", self._source[start : self._place(operand)[0]])
                assert word is not None
                yield self._change("operator", node, start, start + word.end(), "")
            case ast.Constant(value=bool(value)):
                yield self._whole("constant", node, str(not value))
            case ast.Constant(value=int(value)):
                yield self._whole("constant", node, str(value + 1))
            case ast.Constant(value=float(value)):
                yield self._whole("constant", node, repr(value * 2 if value else 1.0))
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) if not _typing_only(test):
                yield self._negated(test)
            case ast.comprehension(ifs=conditions):
                for condition in conditions:
                    yield self._negated(condition)
            case ast.Continue():
                yield self._whole("branch", node, "break")
            case ast.Break():
                yield self._whole("branch", node, "continue")

    def _negated(self, test: ast.expr) -> Change:
        start, end = self._place(test)
        return self._change("branch", test, start, end, f"(not ({self._source[start:end].decode()}))")

    def _whole(self, kind: str, node: ast.AST, after: str) -> Change:
        return self._change(kind, node, *self._place(node), after)

    def _between(self, kind: str, left: ast.expr, right: ast.expr, after: str) -> Change:
        """The operator between two operands; brackets, comments and line ends around it stay."""
        start, end = self._place(left)[1], self._place(right)[0]
        found = _OPERATOR.search(_COMMENT.sub(lambda text: b" " * len(text[0]), self._source[start:end]))
        assert found is not None
        return self._change(kind, left, start + found.start(), start + found.end(), after)

    def _change(self, kind: str, node: ast.AST, start: int, end: int, after: str) -> Change:
        return Change(kind, node.lineno, start, end, self._source[start:end].decode(), after)  # type: ignore[attr-defined]

    def _place(self, node: ast.AST) -> tuple[int, int]:
        """First byte of a node, and the one after its last."""
        return (
            self._lines[node.lineno - 1] + node.col_offset,  # type: ignore[attr-defined]
            self._lines[node.end_lineno - 1] + node.end_col_offset,  # type: ignore[attr-defined]
        )


def _text(node: ast.BinOp) -> bool:
    """Whether it joins or formats text, which has no other operator."""
    return any(isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
               for side in (node.left, node.right))  # fmt: skip


def _typing_only(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"
