"""Creating a container: what differs between sandboxes, workloads and standalone containers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hcs_emulator.vm.linux.agent import cgroups, checks, mounts, rules, spec
from hcs_emulator.vm.linux.agent.container import Container
from hcs_emulator.vm.linux.agent.errors import GuestError, RuleError, failed
from hcs_emulator.vm.linux.agent.network import Namespace

if TYPE_CHECKING:
    from hcs_emulator.vm.linux.agent.guest import Guest


def create(guest: Guest, container: Container, config: dict[str, Any], exited: Callable[[str], None]) -> None:
    document = container.spec
    if container.type == "container":
        container.sandbox = spec.annotations_of(document).get(spec.SANDBOX_ID, "")
        _join_pod(guest, container)
    elif container.type not in (None, "sandbox"):
        raise GuestError(f"unsupported 'io.kubernetes.cri.container-type': '{container.type}'")
    namespace_id = spec.namespace_id(document)
    checks.check_spec(container.id, container.sandbox, config, guest.storage)
    _check_namespace(guest, container, namespace_id)
    is_prepared = False
    try:
        _prepare(guest, container, namespace_id)
        is_prepared = True
        container.log_path = spec.prepare_logs(container.root, document)
        _run(guest, container, namespace_id, exited)
    except BaseException:
        _clean_up(container)
        # As Microsoft's agent, which leaves it for a workload with an invalid spec only. Files of the host that are
        # mounted in it are removed, too.
        if is_prepared or container.type != "container":
            mounts.try_remove_tree(container.bundle)
        raise


def _join_pod(guest: Guest, container: Container) -> None:
    sandbox = container.sandbox
    if not sandbox:
        raise GuestError("unsupported 'io.kubernetes.cri.sandbox-id': ''")
    with guest.lock:
        members = guest.pods.get(sandbox)
        if members is None:
            raise GuestError(f"pod {sandbox} does not exist for workload container {container.id}")
        if container.id in members:
            raise GuestError(f"container {container.id} already registered with pod {sandbox}")
        owner = guest.containers.get(sandbox)
        if owner is None or not owner.is_running():
            raise RuleError(rules.SANDBOX_RUNNING, f"the sandbox {sandbox} of workload {container.id} does not run")
        members.add(container.id)
        container.root = owner.root


def _check_namespace(guest: Guest, container: Container, namespace_id: str) -> None:
    """A namespace that is named must have the adapters that the host added to it."""
    if not namespace_id or container.type == "container" or spec.skips_networking(container.spec):
        return
    namespace = guest.network.get(namespace_id) if container.is_sandbox else guest.network.find(namespace_id)
    if namespace is None or not namespace.adapters:
        text = f"network namespace {namespace_id} of container {container.id} has no adapters"
        raise RuleError(rules.NETWORK_NAMESPACE, text)


def _prepare(guest: Guest, container: Container, namespace_id: str) -> None:
    document, identifier = container.spec, container.id
    if container.type == "container":
        spec.prepare_workload(container.sandbox, identifier, container.root, container.bundle, document)
    elif container.is_sandbox:
        resources = document["linux"].get("resources") or {}
        spec.prepare_sandbox(identifier, container.root, document, _sandbox_namespace(guest, document, namespace_id))
        spec.make_sandbox_directories(container.root)
        with guest.lock:
            if identifier in guest.pods:
                raise GuestError(f"pod {identifier} already exists")
            guest.pods[identifier] = {identifier}
        try:
            cgroups.create(f"{cgroups.PODS}/{identifier}", resources)
        except GuestError as error:
            raise error.within(f"failed to create cgroup for pod {identifier}") from error
    else:
        namespace = guest.network.get_or_add(namespace_id)
        spec.prepare_standalone(identifier, container.root, document, namespace)


def _sandbox_namespace(guest: Guest, document: spec.Spec, namespace_id: str) -> Namespace:
    if spec.skips_networking(document):
        return guest.network.get_or_add(namespace_id)
    return guest.network.get(namespace_id)


def _run(guest: Guest, container: Container, namespace_id: str, exited: Callable[[str], None]) -> None:
    host_network = _uses_host_network(guest, container)
    if host_network:
        spec.stay_in_host_network(container.spec)
    bundle = container.bundle
    mounts.make_directory(bundle, 0o700)
    path = os.path.join(bundle, "config.json")
    try:
        with open(path, "w") as file:
            json.dump(container.spec, file)
    except OSError as error:
        raise failed(f"failed to create config.json at: '{path}'", error) from error
    try:
        pid = container.create(exited)
    except GuestError as error:
        raise error.within("failed to create container") from error
    if container.type == "container":
        return
    namespace = guest.network.find(namespace_id)
    if namespace is None:
        return
    if host_network:
        namespace.configure_in_place()
    else:
        namespace.assign(pid)
        namespace.sync()


def _uses_host_network(guest: Guest, container: Container) -> bool:
    """The sandbox decides for its pod."""
    with guest.lock:
        owner = guest.containers.get(container.sandbox)
    return owner is not None and spec.uses_host_network(owner.spec)


def _clean_up(container: Container) -> None:
    """After a failure: end init if there is one, and unmount what a sandbox has."""
    if container.init is not None:
        try:
            container.runtime.kill(9)
        except GuestError:
            pass
        container.init.gone.wait(5)
        try:
            container.runtime.delete()
        except GuestError:
            pass
    if container.is_sandbox:
        for name in (spec.SANDBOX_MOUNTS, spec.SANDBOX_TMPFS, spec.HUGEPAGES):
            try:
                mounts.unmount_below(os.path.join(container.root, name))
            except GuestError:
                pass


def remove_pod(identifier: str) -> None:
    cgroups.remove(f"{cgroups.PODS}/{identifier}")
