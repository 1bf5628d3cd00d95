"""The walk of one value: which functions receive it, in the order of evaluation."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from journeys.source import Definition, Function, Layers, Package

_CALLS_LATER = {"partial": 0, "map": 0, "asyncio.to_thread": 0, "functools.partial": 0}
"""Functions that call an argument of theirs with their other arguments: name -> position of that argument."""


@dataclass(frozen=True)
class Journey:
    """The functions that a value enters, in order, and the calls that could not be followed."""

    entered: tuple[Definition, ...]
    lost: tuple[str, ...]

    @property
    def stops(self) -> list[tuple[str, list[str]]]:
        """Return each visit to a file: the module, and the functions that are entered there in succession."""
        return [(module, [one.name for one in group]) for module, group in groupby(self.entered, lambda one: one.module)]

    @property
    def files(self) -> int:
        """Return the number of files with a stop."""
        return len({module for module, _ in self.stops})

    @property
    def returns(self) -> int:
        """Return the number of further visits to a file."""
        return len(self.stops) - self.files

    def climbs(self, layers: Layers) -> int:
        """Return the number of stops in a higher layer than the stop before."""
        levels = [layers.level(module) for module, _ in self.stops]
        return sum(after > before for before, after in pairwise(levels))


def walk(package: Package, module: str, function: str, value: str, via: Mapping[str, Sequence[str]] | None = None) -> Journey:
    """Follow a parameter from a function on. `via`: name that is called -> functions (`module:function`) that it stands for.

    Raises LookupError if there is no such function or parameter.
    """
    start = _start(package, module, function)
    if isinstance(start.node, ast.ClassDef) or value not in _all_parameters(start.node):
        raise LookupError(f"{module}:{function} has no parameter {value}")
    walker = _Walker(package, {name: [_start(package, *one.split(":")) for one in found] for name, found in (via or {}).items()})
    walker.enter(start, frozenset({value}), {})
    return Journey(tuple(walker.entered), tuple(dict.fromkeys(walker.lost)))


def _start(package: Package, module: str, function: str) -> Definition:
    found = package.find(module, function)
    if found is None or isinstance(found.node, ast.ClassDef):
        raise LookupError(f"{module} has no function {function}")
    return found


@dataclass
class _Walker:
    package: Package
    via: Mapping[str, Sequence[Definition]]
    entered: list[Definition] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    _followed: set[tuple[str, str]] = field(default_factory=set)
    _fields: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    """Class -> its attributes that hold the value."""

    def enter(self, definition: Definition, names: frozenset[str], objects: Mapping[str, Definition]) -> None:
        """Count the function unless it is an accessor, and follow its body the first time."""
        if not definition.is_accessor:
            self.entered.append(definition)
        key = (definition.module, definition.name)
        if key not in self._followed:
            self._followed.add(key)
            _Body(self, definition, set(names), dict(objects)).run(definition.node.body)

    def hold(self, owner: tuple[str, str], attribute: str) -> None:
        """Note that an attribute of a class holds the value."""
        self._fields.setdefault(owner, set()).add(attribute)

    def held(self, owner: tuple[str, str]) -> set[str]:
        """Return the attributes of a class that hold the value."""
        return self._fields.get(owner, set())


@dataclass
class _Body:
    """The body of one function: which of its names stand for the value."""

    walker: _Walker
    where: Definition
    names: set[str]
    objects: dict[str, Definition] = field(default_factory=dict)
    """Name -> the class of the package that was constructed with the value."""
    local: set[str] = field(default_factory=set)
    """Names that the body binds: a function behind one of them is chosen while the program runs."""

    def run(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self._visit(node)

    def _visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr):
            self._assign(node)
        elif isinstance(node, ast.Call):
            self.run([node.func, *node.args, *(one.value for one in node.keywords)])
            self._call(node)
        elif isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                self._visit(item.context_expr)
                self._bind(item.optional_vars, item.context_expr)
            self.run(node.body)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            self._visit(node.iter)
            self._bind(node.target, node.iter)
            self.run(one for one in ast.iter_child_nodes(node) if one not in (node.iter, node.target))
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            self.run(node.generators)
            self.run(one for one in ast.iter_child_nodes(node) if not isinstance(one, ast.comprehension))
        elif not isinstance(node, ast.arguments):
            self.run(ast.iter_child_nodes(node))

    def _assign(self, node: ast.Assign | ast.AnnAssign | ast.NamedExpr) -> None:
        if node.value is None:
            return
        self._visit(node.value)
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple) and len(target.elts) == len(node.value.elts):
                pairs = list(zip(target.elts, node.value.elts, strict=True))
            for one, value in pairs:
                self._bind(one, value)

    def _bind(self, target: ast.expr | None, value: ast.expr) -> None:
        holds = self._holds(value)
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self" and holds:
            self.walker.hold(self._owner, target.attr)
            return
        for name in (one.id for one in ast.walk(target) if isinstance(one, ast.Name)) if target is not None else ():
            self.local.add(name)
            (self.names.add if holds else self.names.discard)(name)
            self.objects.pop(name, None)
            made = self._resolve(value.func) if holds and isinstance(value, ast.Call) else None
            if made is not None and (made_class := self._class_of(made)) is not None:
                self.objects[name] = made_class

    def _call(self, node: ast.Call) -> None:
        target, arguments = node.func, list(node.args)
        if (later := _CALLS_LATER.get(_dotted(target))) is not None and len(arguments) > later:
            target = arguments.pop(later)
        given: dict[int | str, ast.expr] = {index: one for index, one in enumerate(arguments) if self._holds(one)}
        given |= {one.arg: one.value for one in node.keywords if one.arg and self._holds(one.value)}
        receiver = target.value if isinstance(target, ast.Attribute) else None
        if (method := self._method(target)) is not None:
            self._enter(method, given)
            return
        if not given and not (isinstance(receiver, ast.Name) and receiver.id == "self"):
            return
        definition = self._resolve(target)
        if isinstance(target, ast.Name) and target.id in self.walker.via:
            for one in self.walker.via[target.id]:
                self._enter(one, given)
        elif definition is not None:
            self._enter(definition, given)
        elif self._is_chosen(target):
            self.walker.lost.append(f"{self.where.module}:{node.lineno} {ast.unparse(target)}")

    def _enter(self, definition: Definition, given: Mapping[int | str, ast.expr]) -> None:
        names = self._named(definition, given)
        if isinstance(definition.node, ast.ClassDef):
            if definition.name.endswith("Error"):
                return
            for name in names:
                self.walker.hold((definition.module, definition.name), name)
            if (start := self.walker.package.find(definition.module, f"{definition.name}.__init__")) is not None:
                self._enter(start, given)
            return
        owner = (definition.module, definition.name.partition(".")[0])
        if names or self.walker.held(owner):
            objects = {name: self.objects[one.id] for name, one in names.items() if isinstance(one, ast.Name) and one.id in self.objects}
            self.walker.enter(definition, frozenset(names), objects)

    def _named(self, definition: Definition, given: Mapping[int | str, ast.expr]) -> dict[str, ast.expr]:
        """Return parameter -> argument."""
        known, rest = definition.parameters, definition.rest
        names = {key if isinstance(key, str) else (*known, *[rest] * (key + 1))[key]: one for key, one in given.items()}
        return {name: one for name, one in names.items() if name}

    def _holds(self, node: ast.AST | None) -> bool:
        """Return whether an expression is, contains or is constructed with the value."""
        if node is None:
            return False
        if isinstance(node, ast.Name):
            return node.id in self.names
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "self":
                return node.attr in self.walker.held(self._owner)
            if (made := self.objects.get(node.value.id)) is not None:
                return node.attr in self.walker.held((made.module, made.name))
        if isinstance(node, ast.Call):
            definition = self._method(node.func) or self._resolve(node.func)
            if self._is_chosen(node.func) or (definition is not None and not definition.is_accessor and self._class_of(definition) is None):
                return False
        if isinstance(node, ast.Compare):
            return False
        if isinstance(node, ast.IfExp):
            return self._holds(node.body) or self._holds(node.orelse)
        return any(self._holds(one) for one in ast.iter_child_nodes(node))

    def _method(self, target: ast.expr) -> Definition | None:
        """Return the method that is called on an object that was constructed with the value."""
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id in self.objects:
            made = self.objects[target.value.id]
            return self.walker.package.find(made.module, f"{made.name}.{target.attr}")
        return None

    def _is_chosen(self, target: ast.expr) -> bool:
        """Return whether the program chooses the called function while it runs: it is a parameter or a variable."""
        return isinstance(target, ast.Name) and target.id in self.local | self._parameters - {"cls"}

    def _resolve(self, target: ast.expr) -> Definition | None:
        dotted = _dotted(target)
        if dotted.partition(".")[0] in ("self", "cls"):
            dotted = self._owner[1] + dotted[dotted.index(".") :] if "." in dotted else self._owner[1]
        return self.walker.package.find(self.where.module, dotted) if dotted else None

    def _class_of(self, definition: Definition) -> Definition | None:
        """Return the class that a call constructs: by its name, or by one of its class methods."""
        if isinstance(definition.node, ast.ClassDef):
            return definition
        if any(isinstance(one, ast.Name) and one.id == "classmethod" for one in definition.node.decorator_list):
            return self.walker.package.find(definition.module, definition.name.partition(".")[0])
        return None

    @property
    def _owner(self) -> tuple[str, str]:
        return (self.where.module, self.where.name.partition(".")[0])

    @property
    def _parameters(self) -> set[str]:
        return set() if isinstance(self.where.node, ast.ClassDef) else _all_parameters(self.where.node)


def _all_parameters(node: Function) -> set[str]:
    return {one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)}


def _dotted(node: ast.AST) -> str:
    """Return `a.b.c` for names and attributes, or an empty text."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (base := _dotted(node.value)):
        return f"{base}.{node.attr}"
    return ""


def lines(journey: Journey) -> Iterator[str]:
    """Yield one line for each stop, then the calls that could not be followed."""
    for number, (module, functions) in enumerate(journey.stops, 1):
        yield f"{number:4} {module.partition('.')[2] or module:34} {', '.join(functions)}"
    yield from (f"  not followed: {call}" for call in journey.lost)
