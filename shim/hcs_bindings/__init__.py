"""The Host Compute Service, as blocking and thread-safe Python objects over its C interface.

    errors      one error type; `catalogue` explains the codes and is imported only when an error is shown
    library     the DLLs, loaded with their first call; `protocols` declares their functions for type checkers
    strings     UTF-16 strings and JSON documents, and which function frees them
    operation   one HCS operation from submission to its result
    events      one native callback for all handles; a dispatcher thread delivers exits and events
    handle      when a native handle may be closed
    system, process, service, storage, cim, job, network      the API

The C interface is Microsoft's (https://learn.microsoft.com/en-us/virtualization/api/hcs/overview,
https://learn.microsoft.com/en-us/windows-server/networking/technologies/hcn/hcn-top). Nothing here asks for the
operating system: `shim.platform` knows where the libraries are. docs/reference/hcs-bindings.md describes the API.
"""
