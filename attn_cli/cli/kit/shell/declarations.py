"""The signature of a command, its options and their help, without the imports that its work needs.

--help and completion need the signature of a command alone; the module that holds it imports models' sources and
summaries, and they NumPy. So its source is read, and of that only the definitions run which the signature needs:
dataclasses of options without their methods, and the names in their annotations, wherever those are defined.

Typer imports a command to know its options, and so does every Typer program that is quick only because it is small:
lazy loading starts a level higher, at which command. Import statements inside functions would do the same in twenty
commands and the options they share, at the price of a hundred of them and of no annotation with a type of this
package; standard lazy modules are loaded at the first annotation that names an array. `attn inspect --help` takes 0.3 s
of processor time so, and 0.55 s with all imports.
"""

import ast
from collections.abc import Callable, Iterator
from copy import copy
from functools import cache, wraps
from importlib import import_module
from pathlib import Path
from typing import Any

_PACKAGE = __package__.partition(".")[0]
_FOLDER = Path(__file__).parents[3]  # of the package


def declaration(module: str, name: str) -> Callable[..., Any]:
    """A stand-in for the command function `name` of a module, with its signature and docstring, without the import.

    These are read from the file; the module is imported when the stand-in is called.
    """
    return wraps(_Module(module).value(name))(_deferred(module, name))


def alone(module: str, name: str) -> Any:
    """The constant or function `name` of a module, made by running its own lines, not all that the module imports.

    Names that these lines need are imported, or made in the same way.
    """
    return _Module(module).value(name, whole=True)


def _deferred(module: str, name: str) -> Callable[..., Any]:
    """A function that imports another when it is called, and calls that."""

    def function(*values: Any, **options: Any) -> Any:
        return getattr(import_module(module), name)(*values, **options)

    return function


@cache
class _Module:
    """The definitions of a module, each run when its name is asked for."""

    def __init__(self, name: str) -> None:
        file = _file(name)
        assert file is not None
        self.name, self.file = name, str(file)
        self.definitions = dict(_definitions(ast.parse(file.read_text("utf-8"))))
        self.values: dict[str, Any] = {"__name__": name}

    def value(self, name: str, *, whole: bool = False) -> Any:
        """The value of a name of the module; a function as one that is imported when called, or `whole`."""
        if name not in self.values:
            self.values[name] = self._run(name, self.definitions[name], whole=whole)
        return self.values[name]

    def _run(self, name: str, node: ast.stmt, *, whole: bool) -> Any:
        if isinstance(node, ast.Import):
            return import_module(_original(node, name))
        if isinstance(node, ast.ImportFrom):
            return _imported(str(node.module), _original(node, name))
        declaration = node if whole else _declared(node, is_command=self.name.endswith(f".{name}"))
        if declaration is None:
            is_function = isinstance(node, ast.FunctionDef)
            return _deferred(self.name, name) if is_function else getattr(import_module(self.name), name)
        for needed in _names(declaration):
            if needed in self.definitions and needed != name:
                self.value(needed)
        exec(compile(ast.Module([declaration], []), self.file, "exec"), self.values)
        return self.values[name]


def _imported(module: str, name: str) -> Any:
    """The value of `from module import name`; of this package's modules only that name's definition is run."""
    if module.partition(".")[0] != _PACKAGE:
        package = import_module(module)
        return getattr(package, name) if hasattr(package, name) else import_module(f"{module}.{name}")
    if _file(f"{module}.{name}") is not None:
        return import_module(f"{module}.{name}")
    return _Module(module).value(name)


def _file(module: str) -> Path | None:
    """The file of a module of this package, found without importing what is above it; None where there is none."""
    path = _FOLDER.joinpath(*module.split(".")[1:])
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def _original(node: ast.Import | ast.ImportFrom, name: str) -> str:
    return next(alias.name for alias in node.names if name in (alias.name, alias.asname))


def _definitions(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """The names that a module defines or imports, each with its statement."""
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name, node) for alias in node.names)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (
                (each.id, node) for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)
            )


def _declared(node: ast.stmt, *, is_command: bool) -> ast.stmt | None:
    """A definition that can be run by itself, for it calls nothing later: None for one that can't."""
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return node
    if isinstance(node, ast.FunctionDef) and is_command:
        return _with_body(node, node.body[:1])  # its docstring
    if isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(each) for each in node.decorator_list):
        return _with_body(node, [each for each in node.body if not isinstance(each, ast.FunctionDef)])
    return None


def _names(node: ast.AST) -> Iterator[str]:
    """The names that a definition uses when it is run; those in a lambda are used when that is called."""
    if isinstance(node, ast.Name):
        yield from [node.id] if isinstance(node.ctx, ast.Load) else []
    elif not isinstance(node, ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from _names(child)


def _with_body(node: ast.FunctionDef | ast.ClassDef, body: list[ast.stmt]) -> ast.stmt:
    changed = copy(node)
    changed.body = body
    return changed
