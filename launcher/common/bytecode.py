"""Compile modules without docstrings, annotations and column numbers: `python -X no_debug_ranges bytecode.py < LIST`.

LIST has a line for each module: its file, a tab, and the file name that tracebacks show. The marshalled list of the
marshalled code objects goes to standard output.

No shim reads docstrings, annotations or the columns of instructions, but they would occupy memory in every one. The
interpreter's option -X no_debug_ranges omits the columns. Line numbers stay, for tracebacks. Imports of `__future__`,
which is a module in a file of its own, become compiler flags.

It is a separate program without imports of our packages, because the option applies to the whole interpreter, and
because the interpreter that compiles for Windows runs under Wine.
"""

from __future__ import annotations
import __future__

import ast
import marshal
import sys
from types import CodeType

# Base classes that read the annotations of a class. A decorator may read them, too.
ANNOTATION_READERS = ("NamedTuple", "TypedDict")


def compile_stripped(text: bytes, name: str) -> CodeType:
    tree = ast.parse(text, name)
    flags = 0
    for node in list(tree.body):
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            for alias in node.names:
                flags |= getattr(__future__, alias.name).compiler_flag
            tree.body.remove(node)
    for scope in ast.walk(tree):
        if isinstance(scope, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            _strip(scope)
    ast.fix_missing_locations(tree)
    code: CodeType = compile(tree, name, "exec", flags=flags, dont_inherit=True)
    return code


def _strip(scope: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    if ast.get_docstring(scope, clean=False) is not None:
        scope.body = scope.body[1:]
    if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        scope.returns = None
        for argument in ast.walk(scope.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
    elif not (isinstance(scope, ast.ClassDef) and _needs_annotations(scope)):
        scope.body = [kept for kept in map(_without_annotation, scope.body) if kept is not None]
    if not scope.body and not isinstance(scope, ast.Module):
        scope.body = [ast.Pass(lineno=1, col_offset=0)]


def _needs_annotations(scope: ast.ClassDef) -> bool:
    bases = (ast.unparse(base).rpartition(".")[2] for base in scope.bases)
    return bool(scope.decorator_list) or any(base in ANNOTATION_READERS for base in bases)


def _without_annotation(statement: ast.stmt) -> ast.stmt | None:
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
            codes.append(marshal.dumps(compile_stripped(file.read(), name)))
    sys.stdout.buffer.write(marshal.dumps(codes))
