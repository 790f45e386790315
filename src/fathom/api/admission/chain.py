"""Runs the admission plugins in order on one write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from fathom.api.admission.attempt import Admitted, Charge, Denied, WriteAttempt
from fathom.api.admission.plugin import Plugin, overrides
from fathom.kube.definitions.kind import Kind
from fathom.model.audit import Verdict
from fathom.model.body import decode_json, encode_json
from fathom.model.errors import ApiError, internal
from fathom.model.fields import changed_paths
from fathom.model.objects import Obj, metadata
from fathom.model.view import View

# (plugin, what it raised): for the log. The caller learns only that the plugin failed.
OnFault = Callable[[str, Exception], None]

T = TypeVar("T")


class Steps(msgspec.Struct, frozen=True):
    """The plugins that apply to one kind of write."""

    mutators: tuple[Plugin, ...]
    validators: tuple[Plugin, ...]
    chargers: tuple[Plugin, ...]
    releasers: tuple[Plugin, ...]


class Chain:
    def __init__(
        self, plugins: Sequence[Plugin], *, on_fault: OnFault | None = None, audited: bool = True
    ) -> None:
        """`audited`: record which fields each plugin changed."""
        names = [plugin.name for plugin in plugins]
        if "" in names or len(set(names)) != len(names):
            raise ValueError(f"admission plugins need unique names: {', '.join(names)}")
        self.plugins = tuple(plugins)
        self._on_fault = on_fault
        self._audited = audited
        # A memo of the plugins' class attributes; at most one entry per kind, verb and subresource.
        self._steps: dict[tuple[str, str, str], Steps] = {}

    def for_kind(self, kind: Kind, operation: str, subresource: str = "") -> Steps:
        wanted = (kind.resource, operation, subresource)
        steps = self._steps.get(wanted)
        if steps is None:
            concerned = [plugin for plugin in self.plugins if plugin.concerns(kind, operation, subresource)]
            phases = (
                tuple(plugin for plugin in concerned if overrides(plugin, phase))
                for phase in ("mutate", "validate", "charge", "release")
            )
            steps = self._steps[wanted] = Steps(*phases)
        return steps

    def admit(
        self, attempt: WriteAttempt, view: View, settle: Callable[[Obj], Obj] | None = None
    ) -> Admitted:
        """The object as it will be stored, with the charges of its commit. `settle` completes the object
        after all mutations. Raises `Denied`."""
        steps = self.for_kind(attempt.kind, attempt.operation, attempt.subresource)
        verdicts: list[Verdict] = []
        charges: list[Charge] = []
        if attempt.obj is not None:
            for plugin in steps.mutators:
                self._mutate(plugin, attempt, view, verdicts)
            if settle is not None:
                attempt.obj = settle(attempt.obj)
        for plugin in steps.validators:
            self._run(plugin, plugin.validate, attempt, view, verdicts)
        for plugin in steps.chargers:
            charges += self._run(plugin, plugin.charge, attempt, view, verdicts)
        return Admitted(attempt.obj, tuple(verdicts), tuple(charges), tuple(attempt.warnings))

    def release(self, attempt: WriteAttempt, view: View) -> tuple[Charge, ...]:
        """The charges of the commit that finally removes `attempt.old`."""
        steps = self.for_kind(attempt.kind, attempt.operation, attempt.subresource)
        charges: list[Charge] = []
        for plugin in steps.releasers:
            charges += self._run(plugin, plugin.release, attempt, view, [])
        return tuple(charges)

    def _mutate(self, plugin: Plugin, attempt: WriteAttempt, view: View, verdicts: list[Verdict]) -> None:
        before = attempt.obj
        after = self._run(
            plugin, plugin.mutate if plugin.trusted else _checked(plugin), attempt, view, verdicts
        )
        if after is before or after == before:
            return
        attempt.obj = after
        if self._audited:
            mutated = changed_paths(before, after)
            notes = _notes_of(verdicts, plugin)
            verdicts.append(Verdict(plugin.name, mutated=mutated, notes=notes))

    def _run(
        self,
        plugin: Plugin,
        phase: Callable[[WriteAttempt, View], T],
        attempt: WriteAttempt,
        view: View,
        verdicts: list[Verdict],
    ) -> T:
        shown = attempt if plugin.trusted else _copied(attempt)
        try:
            answer = phase(shown, view)
        except ApiError as error:
            notes = tuple(shown.notes)
            raise Denied(
                error, (*verdicts, Verdict(plugin.name, denied=error.message, notes=notes))
            ) from None
        except Exception as error:
            raise self._fault(plugin, error, verdicts) from error
        if attempt.notes:
            verdicts.append(Verdict(plugin.name, notes=tuple(attempt.notes)))
            attempt.notes.clear()
        return answer

    def _fault(self, plugin: Plugin, error: Exception, verdicts: list[Verdict]) -> Denied:
        """A broken plugin fails closed: no write that it might have refused is stored."""
        if self._on_fault is not None:
            self._on_fault(plugin.name, error)
        why = f'admission plugin "{plugin.name}" failed: {type(error).__name__}'
        return Denied(internal(why), (*verdicts, Verdict(plugin.name, denied=why)))


def _checked(plugin: Plugin) -> Callable[[WriteAttempt, View], Obj]:
    """Check that a mutation returns plain JSON and leaves the object's identity alone: else its key would
    not match its name."""

    def mutate(attempt: WriteAttempt, view: View) -> Obj:
        before = identity(attempt.obj or {})
        after = plugin.mutate(attempt, view)
        if not isinstance(after, dict):
            raise TypeError(f"mutate returned {type(after).__name__}, not an object")
        if identity(after) != before:
            raise ValueError("mutate changed the object's kind, apiVersion, namespace, name or uid")
        plain: Obj = decode_json(encode_json(after))
        return plain

    return mutate


def identity(obj: Obj) -> tuple[object, ...]:
    meta = metadata(obj)
    return obj.get("kind"), obj.get("apiVersion"), meta.get("namespace"), meta.get("name"), meta.get("uid")


def _copied(attempt: WriteAttempt) -> WriteAttempt:
    """For plugins that may modify their input in place: the stored object is shared."""
    return msgspec.structs.replace(attempt, obj=_copy(attempt.obj), old=_copy(attempt.old))


def _copy(obj: Obj | None) -> Obj | None:
    return None if obj is None else decode_json(encode_json(obj))


def _notes_of(verdicts: list[Verdict], plugin: Plugin) -> tuple[tuple[str, str], ...]:
    """Notes that the plugin left in `mutate` belong to its mutation."""
    if verdicts and verdicts[-1].plugin == plugin.name and not verdicts[-1].mutated:
        return verdicts.pop().notes
    return ()
