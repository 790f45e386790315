"""Run containers as processes of this machine: the live side of `Runtime`.

Everything it needs after a restart is in `records`; running containers are waited for through their shims'
pidfds.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from fathom import private_files
from fathom.agent.addresses import next_address
from fathom.agent.container_views import containers_of
from fathom.agent.host.account import with_account
from fathom.agent.host.api_reads import Fetched, Fetcher, NotFetched, references
from fathom.agent.host.directories import link_mounts, make_places, mount_note, write_open
from fathom.agent.host.envfiles import read_env_files
from fathom.agent.host.environment import Surroundings, Unresolved, hosts_file
from fathom.agent.host.files import (
    TOKEN_S,
    audiences_of,
    changes_by_itself,
    check_amounts,
    shows_metadata,
    volume_files,
    write_volume,
)
from fathom.agent.host.idranges import IdRanges
from fathom.agent.host.ids import OWN_GROUP, fs_group_of
from fathom.agent.host.images import ImagesFile, argv_of
from fathom.agent.host.launch import Rights, Settled, identity_for, shim_spec
from fathom.agent.host.limits import LimitEnforcement, fence_in, remove_groups
from fathom.agent.host.orphan_processes import SHIM, end_below, shims_below
from fathom.agent.host.probes import HostProber
from fathom.agent.host.records import LOCK, ExitRecord, PodRecord, Records, RunRecord, boot_id, is_alive
from fathom.agent.host.resolving import HOST_RESOLV, resolv_file
from fathom.agent.host.run_watcher import RunWatcher
from fathom.agent.host.sockets import family, listening
from fathom.agent.runtime import ContainerNotStarted, ContainerRun, KeptContainer, Launch, ProbeResult
from fathom.agent.runtime_client import Probing, RuntimeSignal
from fathom.agent.safe_files import Unsafe, remove_path, words_of
from fathom.agent.shim import REFUSED
from fathom.model.objects import Obj, lookup, uid_of
from fathom.seams.log import Log

BEGUN_S, POLL_S = 5.0, 0.05
TOKEN_RENEW = 0.7  # Fraction of a token's lifetime after which it is renewed.


class DriverSettings(msgspec.Struct, frozen=True):
    """Settings of a node's driver."""

    node: str
    directory: Path
    pod_range: str
    host_ip: str
    images: ImagesFile
    rights: Rights
    means: LimitEnforcement
    allocatable: dict[str, str]
    log_bytes: int = 10 * 1024 * 1024


class Tokens(msgspec.Struct, frozen=True):
    by_audience: dict[str, str]
    renew_s: float  # When to request new ones; monotonic.


def _shim_environment() -> dict[str, str]:
    """Nothing of the agent's own, except what Python itself may need to start: the keeper of commands is a
    fork of the shim, and without root its pod can read its environment."""
    return {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}


class ProcessDriver:
    """Make it on the host's loop."""

    def __init__(self, settings: DriverSettings, fetcher: Fetcher, log: Log) -> None:
        self._settings = settings
        self._fetcher = fetcher
        self._log = log
        self.records = Records(settings.directory)
        self._ranges = IdRanges()
        self._prober = HostProber(self.records.run_dir)
        self.watcher = RunWatcher(self.records, log)
        self._boot = boot_id()
        self._last_ip = ""
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}  # Held during starts, by pod and container.
        self._tokens: dict[str, Tokens] = {}  # Tokens that pods have, by UID.
        self._end_unknown()
        self._hold_ids()
        self.watcher.adopt_all()

    async def close(self) -> None:
        self.watcher.forget()
        await self._prober.close()

    # Calls of the deciding part.

    def listing(self) -> tuple[KeptContainer, ...]:
        return tuple(self.records.kept(record) for record in self.records.pods())

    async def admit(self, pod: Obj) -> KeptContainer:
        """Wait for running starts first: the caller must not conclude that nothing runs."""
        for (uid, _), lock in list(self._locks.items()):
            if uid == uid_of(pod):
                async with lock:
                    pass
        record = self.records.pod(uid_of(pod))
        ip = record.ip if record is not None else self._free_ip(pod)
        if record is None:
            self._keep(pod, ip)
        return KeptContainer(pod, ip, tuple(self.records.runs(uid_of(pod))))

    def _keep(self, pod: Obj, ip: str) -> None:
        """Record the pod, with user ids of its own if we are root."""
        if not self._settings.rights.root:
            self.records.keep_pod(pod, ip)
            return
        self._ranges.claim(self.records.pod_dir(uid_of(pod)), lambda ids: self.records.keep_pod(pod, ip, ids))

    def _hold_ids(self) -> None:
        """Reserve the user ids of pods that are here, so that no other pod gets them."""
        for record in self.records.pods() if self._settings.rights.root else ():
            uid = uid_of(record.pod)
            if record.ids and not self._ranges.hold(record.ids, self.records.pod_dir(uid)):
                self._log.warn("another pod on this machine has the same user ids", pod=uid, ids=record.ids)

    def _free_ip(self, pod: Obj) -> str:
        """One that nobody listens on, if there is one: a pod may listen on all of them, and must not keep
        others off the node."""
        pod_range, taken = self._settings.pod_range, {record.ip for record in self.records.pods()}
        ip = next_address(pod_range, taken | listening(), self._last_ip) or next_address(
            pod_range, taken, self._last_ip
        )
        if ip is None:
            raise RuntimeError(f"every address of {self._settings.pod_range}.0/24 is taken")
        self._last_ip = ip
        return ip

    async def start(self, launch: Launch) -> ContainerRun | ContainerNotStarted:
        async with self._locks.setdefault((uid_of(launch.pod), launch.container), asyncio.Lock()):
            run = await self._begun(launch)
            return run if run is not None else await self._start(launch)

    async def _begun(self, launch: Launch) -> ContainerRun | None:
        """A run that an earlier agent started, but was killed before it learned of it."""
        uid, name = uid_of(launch.pod), launch.container
        for _ in range(round(BEGUN_S / POLL_S)):
            run = self.records.run(uid, name, launch.attempt)
            if run is not None:
                self.watcher.watch(run)
                return self.records.run(uid, name, launch.attempt)
            if not self.records.is_held(uid, name):
                return None
            await asyncio.sleep(POLL_S)
        # The record was lost or damaged: that run could not be watched, nor ended later.
        self._log.warn("killing a container run without a record", pod=uid, container=name)
        end_below(self.records.run_dir(uid, name, launch.attempt).parent)
        return None

    async def _start(self, launch: Launch) -> ContainerRun | ContainerNotStarted:
        launch = msgspec.structs.replace(launch, pod=self._with_account_volume(launch.pod))
        container = next(
            candidate.spec for candidate in containers_of(launch.pod) if candidate.name == launch.container
        )
        images = self._settings.images
        program = argv_of(container, images.now())
        if isinstance(program, str):
            message = (
                f"{program} (the --images file was changed and cannot be used: {images.problem})"
                if images.problem
                else program
            )
            return ContainerNotStarted("ErrImageNeverPull", message)
        try:
            fetched = await self._fetch(launch.pod)
            settled = self._settle(launch, container, program, fetched)
            return await self._spawn(settled, shim_spec(settled))
        except (Unresolved, NotFetched) as error:
            return ContainerNotStarted("CreateContainerConfigError", str(error))
        except Unsafe as error:
            return ContainerNotStarted("CreateContainerConfigError", words_of(error))
        except OSError as error:
            message = f"{error.strerror or error}: {error.filename or self._settings.directory}"
            return ContainerNotStarted("CreateContainerError", message)

    def signal(self, request: RuntimeSignal) -> None:
        record = self._record(request.id, request.uid, request.container, request.attempt)
        if record is None or record.id != request.id or not is_alive(record.pid, record.pid_started):
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(record.pid, signal.SIGKILL if request.kill else signal.SIGTERM)
        if request.kill:
            self._kill_family(record)

    def _kill_family(self, record: RunRecord) -> None:
        """Kill all processes of the run, also those that left the process group."""
        for pid in family(record.shim) if is_alive(record.shim, record.shim_started) else ():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    async def probe(self, request: Probing) -> ProbeResult:
        run = request.run
        record = self._record(run.id, run.uid, run.container, run.attempt)
        if record is None or not is_alive(record.pid, record.pid_started):
            return ProbeResult(False, "the container is not running")
        return await self._prober.probe(record, request.pod, request.probe, request.ip)

    def _record(self, run_id: str, uid: str, container: str, attempt: int) -> RunRecord | None:
        return self.watcher.record(run_id) or self.records.run_record(uid, container, attempt)

    async def remove(self, uid: str) -> None:
        """Remove files in a thread: there may be many, and other pods must not wait. Then its ids are
        free."""
        record = self.records.pod(uid)
        await asyncio.to_thread(self._remove_files, self._forget(uid))
        if record is not None and record.ids:
            self._ranges.release(record.ids, self.records.pod_dir(uid))

    def _forget(self, uid: str) -> list[Path]:
        """Drop all state of the pod; return the directories still to be removed."""
        self.watcher.forget(uid)
        self._tokens.pop(uid, None)
        for key in [key for key in self._locks if key[0] == uid]:
            del self._locks[key]
        remove_groups(f"{self._settings.node}/{uid}")
        places = [Path(self._settings.rights.places, uid)] if self._settings.rights.places else []
        moved = self.records.take_away(uid)
        return [*places, moved] if moved is not None else places

    def _remove_files(self, places: list[Path]) -> None:
        """What cannot be removed is tried again at the agent's next start."""
        for place in places:
            try:
                remove_path(place)
            except OSError as error:
                self._log.warn("a pod's files cannot be removed", place=str(place), error=str(error))

    # While containers run.

    async def refresh(self) -> None:
        """Update mounted ConfigMaps, Secrets, tokens, labels and annotations from the API. What cannot be
        fetched now stays as it is."""
        for record in self.records.pods():
            pod, uid = self._with_account_volume(record.pod), uid_of(record.pod)
            volumes = [volume for volume in lookup(pod, "spec", "volumes") or () if changes_by_itself(volume)]
            shows_own = shows_metadata(pod)
            changes = any(references(pod)) or shows_own or (audiences_of(pod) and not self._has_tokens(uid))
            if not volumes or not changes or all(run.exit is not None for run in self.records.runs(uid)):
                continue
            try:
                fetched = await self._fetch(pod, services=False)
                now = self._with_account_volume(await self._fetcher.pod(pod)) if shows_own else pod
                around = self._around(PodRecord(now, record.ip), fetched)
                self._write_volumes(pod, volumes, around, fetched, record.ids)
            except (NotFetched, Unresolved, OSError) as error:
                self._log.warn("volumes could not be refreshed", pod=uid, error=str(error))

    def _with_account_volume(self, pod: Obj) -> Obj:
        """The pod with its service account volume, if volumes can be mounted."""
        return with_account(pod) if self._settings.rights.enclosing else pod

    async def _fetch(self, pod: Obj, *, services: bool = True) -> Fetched:
        """Fetch the pod's objects each time, but tokens only when they are due for renewal."""
        uid, now_s = uid_of(pod), time.monotonic()
        if self._has_tokens(uid):
            fetched = await self._fetcher.fetch(pod, {}, services=services)
            return msgspec.structs.replace(fetched, tokens=self._tokens[uid].by_audience)
        audiences = audiences_of(pod)
        fetched = await self._fetcher.fetch(pod, audiences, services=services)
        good_s = min(audiences.values(), default=TOKEN_S)
        self._tokens[uid] = Tokens(fetched.tokens, now_s + TOKEN_RENEW * good_s)
        return fetched

    def _has_tokens(self, uid: str) -> bool:
        tokens = self._tokens.get(uid)
        return tokens is not None and time.monotonic() < tokens.renew_s

    def _write_volumes(
        self, pod: Obj, volumes: list[Obj], around: Surroundings, fetched: Fetched, ids: int
    ) -> None:
        rights = self._settings.rights
        identity = identity_for(pod, containers_of(pod)[0].spec, ids, rights)
        user = (identity.host_uid, identity.host_gid) if identity is not None else None
        group = fs_group_of(pod, ids, rights.host_ids) if identity is not None else None
        check_amounts(volumes, around)
        for volume in volumes:
            files = volume_files(volume, around, fetched.tokens)
            write_volume(self._place(uid_of(pod)) / "volumes" / volume["name"], files, user, group)

    def _place(self, uid: str) -> Path:
        """The directory of a pod's files. If nothing can be mounted, the pod's own user must have access to
        it."""
        places = self._settings.rights.places
        return Path(places, uid) if places else self.records.pod_dir(uid)

    def _around(self, record: PodRecord, fetched: Fetched) -> Surroundings:
        settings = self._settings
        return Surroundings(
            pod=record.pod,
            pod_ip=record.ip,
            host_ip=settings.host_ip,
            config_maps=fetched.config_maps,
            secrets=fetched.secrets,
            services=fetched.services,
            allocatable=settings.allocatable,
            base={"PATH": os.environ.get("PATH", os.defpath), "LANG": os.environ.get("LANG", "C.UTF-8")},
        )

    # Starting.

    def _settle(
        self, launch: Launch, container: Obj, program: tuple[list[str], object], fetched: Fetched
    ) -> Settled:
        pod, uid, settings = launch.pod, uid_of(launch.pod), self._settings
        record = self.records.pod(uid)
        if record is not None and settings.rights.root and not record.ids:  # Recorded by an older version.
            self._keep(record.pod, record.ip)
            record = self.records.pod(uid)
        if record is None:
            raise Unresolved("the pod was deleted in the meantime")
        around = self._around(PodRecord(pod, record.ip), fetched)
        pod_dir, run_dir = (
            self._place(uid),
            self.records.run_dir(uid, launch.container, launch.attempt),
        )
        identity = identity_for(pod, container, record.ids, settings.rights)
        user = (identity.host_uid, identity.host_gid) if identity is not None else None
        make_places(pod_dir, run_dir, container, user)
        if settings.rights.places:  # Every pod has access there, and volumes are open to all users.
            os.chown(pod_dir, 0, record.ids + OWN_GROUP)
            pod_dir.chmod(0o710)
        volumes = [volume for volume in lookup(pod, "spec", "volumes") or () if "hostPath" not in volume]
        self._write_volumes(pod, volumes, around, fetched, record.ids)
        files = read_env_files(container, pod_dir / "volumes")
        around = msgspec.structs.replace(around, env_files=files)
        write_open(pod_dir / "hosts", hosts_file(pod, record.ip))
        resolv = resolv_file(pod, HOST_RESOLV)
        if resolv is not None:
            write_open(pod_dir / "resolv.conf", resolv)
        fence = fence_in(settings.means, f"{settings.node}/{uid}/{launch.container}", container, pod)
        argv, image = program
        return Settled(
            launch, container, argv, image, around, pod_dir, run_dir, fence, settings.rights, identity,  # type: ignore[arg-type]  # as `argv_of` says
            self._boot, settings.log_bytes, pod_dir / "resolv.conf" if resolv is not None else None,
        )  # fmt: skip

    async def _spawn(self, settled: Settled, spec: dict[str, Any]) -> ContainerRun:
        if not settled.rights.enclosing:
            link_mounts(settled.pod_dir / "home" / settled.container["name"], spec["mounts"])
        launch = settled.launch
        file = settled.run_dir / "spec.json"
        private_files.write(file, msgspec.json.encode(spec))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", str(SHIM), str(file),
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT, start_new_session=True, cwd="/",
            env=_shim_environment(),
        )  # fmt: skip
        output, _ = await process.communicate()
        uid = uid_of(launch.pod)
        self.records.forget_old_runs(uid, launch.container)
        run = self.records.run(uid, launch.container, launch.attempt)
        text = output.decode("utf-8", "replace").strip()
        if run is None and text.startswith(REFUSED):
            raise Unresolved(text.removeprefix(REFUSED))
        if run is None:
            return self._never_ran(settled, text)
        self.watcher.watch(run)
        began = self.records.run(uid, launch.container, launch.attempt) or run
        return msgspec.structs.replace(began, note=mount_note(settled))

    def _never_ran(self, settled: Settled, output: str) -> ContainerRun:
        """Record a failed start as a run: the restart policy decides what follows."""
        launch, now_ns = settled.launch, time.time_ns()
        uid = uid_of(launch.pod)
        ended = self.records.exit_record(uid, launch.container, launch.attempt)
        record = RunRecord(
            uid, launch.container, launch.attempt, launch.crashes, self._boot, 0, 0, 0, 0,
            ended.started_ns if ended is not None else now_ns,
        )  # fmt: skip
        private_files.write(settled.run_dir / "run.json", msgspec.json.encode(record))
        if ended is None:
            message = output or "the shim did not start"
            self.records.write_exit(record.run, ExitRecord(128, now_ns, now_ns, 0, "StartError", message))
        return self.records.run(uid, launch.container, launch.attempt) or record.run

    # Ends.

    def _end_unknown(self) -> None:
        """End pods whose record cannot be read, and runs whose files are gone: they could not be
        attributed."""
        for uid in self.records.unreadable():
            self._log.warn("killing a pod without a readable record", uid=uid)
            end_below(self.records.pod_dir(uid))
            self._remove_files(self._forget(uid))
        for _, directory in list(shims_below(self.records.directory / "pods")):
            if not (directory.parent / LOCK).exists():
                self._log.warn("killing a container run without a record", directory=str(directory))
                end_below(directory)
        self._remove_files(self.records.taken_away())
