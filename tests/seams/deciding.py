"""The rules of deciding code, as a reader of its source: what it imports, calls and iterates over.

A replay finds what slips through, once it has happened. This finds it before.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

# All that deciding code needs of Python's own modules. Whatever is not here can reach the outside, or has an
# order of its own.
_MODULES = """
    __future__ abc asyncio base64 binascii bisect collections collections.abc contextlib copy dataclasses
    datetime decimal enum fractions functools hashlib heapq ipaddress itertools json math operator random re
    statistics string struct textwrap types typing unicodedata urllib.parse uuid zlib
"""
MODULES = frozenset(_MODULES.split())
LIBRARIES = frozenset({"fathom", "immutables", "msgspec", "numpy", "yaml"})

# asyncio on a Domain. Not here: threads, processes, sockets, other loops; `as_completed`, which puts
# coroutines into a set by address, and `all_tasks`, whose order is not ours (use `Domain.tasks`).
_ASYNCIO = """
    ALL_COMPLETED FIRST_COMPLETED FIRST_EXCEPTION AbstractEventLoop BoundedSemaphore CancelledError Condition
    Event Future Handle InvalidStateError LifoQueue Lock PriorityQueue Queue QueueEmpty QueueFull Semaphore
    Task TaskGroup Timeout TimeoutError TimerHandle create_task current_task ensure_future gather
    get_running_loop iscoroutinefunction shield sleep timeout timeout_at wait wait_for
"""
ASYNCIO = frozenset(_ASYNCIO.split())
# Types to write down, not to make: a Domain numbers the futures and tasks that it makes itself.
NOT_CALLED = frozenset({"asyncio.Future", "asyncio.Task"})
RANDOM = frozenset({"random.Random"})
UUID = frozenset({"uuid.UUID", "uuid.uuid3", "uuid.uuid5"})

# Addresses and string hashes differ between interpreters; the others are the outside.
BUILTINS = frozenset({"id", "hash", "open", "input", "print", "exec", "eval", "__import__", "breakpoint"})

# What makes an order of whatever it is given.
ORDERED = frozenset(
    {"list", "tuple", "iter", "enumerate", "zip", "map", "filter", "dict", "deque", "reversed"}
)
# Counters and containers that outlive a process when it begins anew in the same interpreter.
STATEFUL = frozenset({"count", "deque", "defaultdict", "Counter", "OrderedDict", "WeakValueDictionary"})


def broken_rules(source: str) -> list[str]:
    tree = ast.parse(source)
    found = [
        *_imports(tree),
        *_names(tree),
        *_calls(tree),
        *_iterations(tree),
        *_generators(tree),
        *_state(tree),
    ]
    return [f"{line}: {text}" for line, text in sorted(set(found))]


Found = Iterator[tuple[int, str]]


def _imports(tree: ast.Module) -> Found:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules = [node.module]
        else:
            continue
        for module in modules:
            if not _is_allowed(module):
                yield node.lineno, f"import of {module}"


def _is_allowed(module: str) -> bool:
    head = module.partition(".")[0]
    return module in MODULES or head in LIBRARIES


def _names(tree: ast.Module) -> Found:
    """Members of modules that are only partly allowed, however they are imported."""
    for line, name in used_names(tree):
        module, _, member = name.partition(".")
        member = member.partition(".")[0]
        if (
            (module == "asyncio" and member and member not in ASYNCIO)
            or (module == "random" and member and f"random.{member}" not in RANDOM)
            or (module == "uuid" and member and f"uuid.{member}" not in UUID)
        ):
            yield line, f"{module}.{member}"


def used_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            aliases |= {alias.asname or alias.name.partition(".")[0]: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield node.lineno, f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            head, _, rest = dotted(node).partition(".")
            if head in aliases:
                yield node.lineno, f"{aliases[head]}.{rest}"


def dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def _calls(tree: ast.Module) -> Found:
    imported = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    hashing = {id(inner) for node in ast.walk(tree) if _is_hash(node) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = dotted(node.func)
            if name in BUILTINS and not (name == "hash" and id(node) in hashing):
                yield node.lineno, f"{name}()"
            if imported.get(name, name) in NOT_CALLED:
                yield node.lineno, f"{name}(), use the loop's"


def _is_hash(node: ast.AST) -> bool:
    """Equal things must have equal hashes; what is done with them is looked at elsewhere."""
    return isinstance(node, ast.FunctionDef) and node.name == "__hash__"


def _iterations(tree: ast.Module) -> Found:
    """Iteration over what is plainly a set. What is a set only at run time, a replay finds."""
    sets = _set_names(tree)

    def is_set(node: ast.AST) -> bool:
        if isinstance(node, ast.Set | ast.SetComp):
            return True
        if isinstance(node, ast.Call):
            method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            if method in {"union", "intersection", "difference", "symmetric_difference", "copy"}:
                return is_set(node.func.value)  # type: ignore[attr-defined]  # an Attribute, see above
            return dotted(node.func) in {"set", "frozenset"}
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub | ast.BitOr | ast.BitAnd | ast.BitXor):
            return any(is_set(side) or _is_keys(side) for side in (node.left, node.right))
        return dotted(node) in sets

    for node in ast.walk(tree):
        for inner in _iterated(node):
            if is_set(inner):
                yield inner.lineno, "iteration over a set"


def _iterated(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.For | ast.AsyncFor):
        return [node.iter]
    if isinstance(node, ast.ListComp | ast.DictComp | ast.GeneratorExp):
        return [generator.iter for generator in node.generators]
    if isinstance(node, ast.Starred):
        return [node.value]
    if isinstance(node, ast.Call):
        name = dotted(node.func)
        if name in ORDERED or name.endswith((".join", ".extend", ".fromkeys")):
            return node.args
        if name.endswith(".pop") and not node.args and isinstance(node.func, ast.Attribute):
            return [node.func.value]
    return []


def _is_keys(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "keys"


def _set_names(tree: ast.Module) -> frozenset[str]:
    """Variables and attributes that are written down as sets, or made as such."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and _says_set(node.annotation):
            found.add(dotted(node.target))
        elif isinstance(node, ast.arg) and node.annotation is not None and _says_set(node.annotation):
            found.add(node.arg)
        elif isinstance(node, ast.Assign) and _makes_set(node.value):
            found |= {dotted(target) for target in node.targets}
    return frozenset(name for name in found if "?" not in name)


def _makes_set(value: ast.expr) -> bool:
    made = isinstance(value, ast.Call) and dotted(value.func) in {"set", "frozenset"}
    return made or isinstance(value, ast.Set | ast.SetComp)


def _says_set(annotation: ast.expr) -> bool:
    head = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    return dotted(head) in {"set", "frozenset", "Set", "AbstractSet", "MutableSet"}


def _generators(tree: ast.Module) -> Found:
    """An async generator that is dropped half-way is finished whenever it is collected."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncFunctionDef) and _yields(node):
            decorators = {dotted(each).rpartition(".")[2] for each in node.decorator_list}
            if "asynccontextmanager" not in decorators:
                yield node.lineno, f"async generator {node.name}"


def _yields(function: ast.AsyncFunctionDef) -> bool:
    inner: list[ast.AST] = list(function.body)
    while inner:
        node = inner.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            inner += ast.iter_child_nodes(node)
    return False


def _state(tree: ast.Module) -> Found:
    for node in tree.body:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        while isinstance(value, ast.Attribute):  # count().__next__
            value = value.value
        if isinstance(value, ast.Call) and dotted(value.func).rpartition(".")[2] in STATEFUL:
            yield node.lineno, "state in a module"
        if isinstance(node, ast.FunctionDef) and any(isinstance(each, ast.Global) for each in ast.walk(node)):
            yield node.lineno, "state in a module"
