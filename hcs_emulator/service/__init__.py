"""The emulator's service: the Host Compute Service (HCS) and Host Compute Network (HCN) in one process.

A request passes these packages from top to bottom. A package imports only those below it:

    __main__            the program
    run                 command line, startup and shutdown
    control             control.sock: status, journal, faults, latency profiles, quirks
    dispatch            one call: journal, faults, latency, then the export
    exports/            one function per export of the HCS DLLs
    host                all compute systems of the host, and what they share
    virtual_machine/    utility VMs: settings, and the worker process (`hcs_emulator.vm`) that runs the guest
    compute_system/     the state machine of compute systems, processes, process-isolated containers
    wine/               Windows programs under Wine: their connections, paths and processes
    silo/               the processes of a container on Linux: namespaces, cgroups, stats
    storage/ network/   layers, virtual disks, VM access; networks, namespaces and endpoints
    service_properties  HcsGetServiceProperties, HcsModifyServiceSettings
    journal, events     calls and events as JSON lines; delivery of HCS events to handles
    memory, malloc      counts for a search for leaks; the setting of glibc's malloc
    faults, latency     fault injection; latency profiles
    handles             handles of clients
    transport/          frames and sockets between the native library and the service
    directory           the directory of an instance: created and checked
    convert             JSON and TOML values as attrs classes
    schema/             what HCS documents may contain
    errors              HRESULTs and ResultError documents

tests/unit/emulator/test_structure.py checks the order. Compute systems hold a reference to their host; they import it
for type checks only. The inside of a utility VM, `hcs_emulator.vm`, uses silo/, storage/, schema/, journal,
errors, and the cgroups of a VM.
"""
