"""The Host Compute Service, as blocking and thread-safe Python objects over its C interface.

    errors      one error type; what a code means is in `catalogue`, read only when an error is shown
    library     the DLLs, loaded when first called; `protocols` says which functions they have
    strings     UTF-16 in and out, and who frees what
    operation   one tracked call from submission to its result
    events      one callback for everything; exits and events come out on a thread of ours
    handle      when a native handle may be closed
    system, process, service, storage, network      what the shim works with

Nothing here is imported before it is needed, and nothing here looks at the operating system: `shim.platform` knows
where the libraries are.
"""
