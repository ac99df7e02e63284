"""Virtual NUMA nodes of a utility VM, from annotations. Two forms: HCS divides the VM by limits per node, or the
annotations list each node."""

from __future__ import annotations

from shim.oci.annotations import vm as names
from shim.oci.errors import InvalidSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.oci.annotations.container import Annotations

    Document = dict[str, Any]

BUILD = 26100
MAX_NODE = 64
ANY_NODE = 255


class Numa:
    """`ComputeTopology.Numa` and, in the first form, its `Processor.NumaProcessorsSettings`."""

    __slots__ = ("processor_settings", "topology")

    def __init__(self, topology: Document, processor_settings: Document | None) -> None:
        self.topology = topology
        self.processor_settings = processor_settings


def read(
    annotations: Annotations, processors: int, memory_mb: int, overcommit: bool, build: int, document_error: str
) -> Numa | None:
    """`document_error` begins the words of an error, see `VmSettings`."""
    per_node = annotations.number(names.NUMA_PROCESSORS_PER_NODE)
    nodes = annotations.numbers(names.NUMA_MAPPED_NODES)
    counts = annotations.numbers(names.NUMA_PROCESSORS)
    memory = annotations.numbers(names.NUMA_MEMORY)
    if not per_node and not nodes:
        # Microsoft's shim ignores the other lists without this one. What runs with it must run here.
        for name, given in ((names.NUMA_PROCESSORS, counts), (names.NUMA_MEMORY, memory)):
            if given:
                annotations.warn(f"annotation {name} has no effect without {names.NUMA_MAPPED_NODES}")
        return None
    if build < BUILD:
        raise InvalidSpec(
            f"{document_error}vNUMA topology is not supported on {build} version of Windows: it needs "
            f"build {BUILD} or later"
        )
    if overcommit:
        raise InvalidSpec(
            f"vNUMA supports only Physical memory backing type: set {names.ALLOW_OVERCOMMIT} to false, or "
            f"{names.PHYSICALLY_BACKED} to true"
        )
    if per_node:
        return _divided(annotations, per_node)
    return _listed(nodes, counts, memory, processors, memory_mb)


def _divided(annotations: Annotations, per_node: int) -> Numa:
    size = annotations.number(names.NUMA_MEMORY_PER_NODE)
    if not size:
        raise InvalidSpec(f"annotation {names.NUMA_PROCESSORS_PER_NODE} needs {names.NUMA_MEMORY_PER_NODE} beside it")
    topology: Document = {"MaxSizePerNode": size}
    if preferred := annotations.numbers(names.NUMA_PREFERRED_NODES):
        topology["PreferredPhysicalNodes"] = preferred
    return Numa(topology, {"count_per_node": {"max": per_node}})


def _listed(nodes: list[int], counts: list[int], memory: list[int], processors: int, memory_mb: int) -> Numa:
    if not len(nodes) == len(counts) == len(memory):
        raise InvalidSpec(
            f"the lists of NUMA nodes differ in length: {names.NUMA_MAPPED_NODES} has {len(nodes)}, "
            f"{names.NUMA_PROCESSORS} {len(counts)}, {names.NUMA_MEMORY} {len(memory)}"
        )
    wildcards = nodes.count(ANY_NODE)
    if any(node > MAX_NODE for node in nodes if node != ANY_NODE) or wildcards not in (0, len(nodes)):
        raise InvalidSpec(
            f"{names.NUMA_MAPPED_NODES} names nodes {nodes}: each must be {MAX_NODE} or less, or all {ANY_NODE}"
        )
    if 0 in memory:
        raise InvalidSpec(f"{names.NUMA_MEMORY} has a node without memory: give each some")
    if sum(counts) != processors or sum(memory) != memory_mb:
        raise InvalidSpec(
            f"the NUMA nodes have {sum(counts)} processors and {sum(memory)} MB together, the VM {processors} and "
            f"{memory_mb}: give equal numbers"
        )
    settings = [
        {
            "VirtualNodeNumber": number,
            "PhysicalNodeNumber": node,
            "VirtualSocketNumber": number,
            "CountOfProcessors": count,
            "CountOfMemoryBlocks": blocks,
            "MemoryBackingType": "Physical",
        }
        for number, (node, count, blocks) in enumerate(zip(nodes, counts, memory, strict=True))
    ]
    return Numa({"VirtualNodeCount": len(nodes), "Settings": settings}, None)
