"""Compile modules to as little as they need to run: `python -X no_debug_ranges bytecode.py < LIST`.

LIST has a line for each module: its file, and after a tab the name that tracebacks show. A list of the marshalled
codes, itself marshalled, goes to standard output.

What nobody reads in a shim would stay in the memory of every one: docstrings, annotations, and the columns that an
instruction belongs to, which the interpreter's option leaves out. Lines stay, for tracebacks. The import of
`__future__`, a real module in a real file, is done here and now.

A program of its own, without any import of ours: the option is the interpreter's, and the one that compiles for
Windows runs there.
"""

from __future__ import annotations
import __future__

import ast
import marshal
import sys
from types import CodeType

# Classes that are made from their annotations: by a decorator, or by one of these.
MADE_FROM_ANNOTATIONS = ("NamedTuple", "TypedDict")


def compiled(text: bytes, name: str) -> CodeType:
    tree = ast.parse(text, name)
    flags = 0
    for node in list(tree.body):
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            for alias in node.names:
                flags |= getattr(__future__, alias.name).compiler_flag
            tree.body.remove(node)
    for place in ast.walk(tree):
        if isinstance(place, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            _strip(place)
    ast.fix_missing_locations(tree)
    code: CodeType = compile(tree, name, "exec", flags=flags, dont_inherit=True)
    return code


def _strip(place: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    if ast.get_docstring(place, clean=False) is not None:
        place.body = place.body[1:]
    if isinstance(place, (ast.FunctionDef, ast.AsyncFunctionDef)):
        place.returns = None
        for argument in ast.walk(place.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
    elif not (isinstance(place, ast.ClassDef) and _is_made_from_annotations(place)):
        place.body = [kept for kept in map(_bare, place.body) if kept is not None]
    if not place.body and not isinstance(place, ast.Module):
        place.body = [ast.Pass(lineno=1, col_offset=0)]


def _is_made_from_annotations(place: ast.ClassDef) -> bool:
    bases = (ast.unparse(base).rpartition(".")[2] for base in place.bases)
    return bool(place.decorator_list) or any(base in MADE_FROM_ANNOTATIONS for base in bases)


def _bare(statement: ast.stmt) -> ast.stmt | None:
    """`name: type = value` without the type; None for a type alone."""
    if not isinstance(statement, ast.AnnAssign):
        return statement
    if statement.value is None:
        return None
    return ast.copy_location(ast.Assign(targets=[statement.target], value=statement.value), statement)


if __name__ == "__main__":
    codes = []
    for line in sys.stdin.read().splitlines():
        path, name = line.split("\t")
        with open(path, "rb") as file:
            codes.append(marshal.dumps(compiled(file.read(), name)))
    sys.stdout.buffer.write(marshal.dumps(codes))
