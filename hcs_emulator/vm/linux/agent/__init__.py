"""The emulated Linux guest agent: a program with the command line and the bridge of Microsoft's `gcs`.

It runs inside the namespaces of a Linux utility VM and runs containers with runc. It answers as gcs does, and it is
stricter: a request that gcs would accept although a correct host never sends it is refused with an error that names the
violated rule (`rules`). What would crash gcs ends this agent, too, and with it the VM.

One thread per request, as gcs has one goroutine per request: most requests wait for the kernel or for runc.

    bridge, messages            the connection to the host, and the shapes of the requests
    guest                       the procedures of the bridge
    container, process, relay   containers, their processes and streams
    runc                        the container runtime's command line
    create, spec, users, …      from the host's OCI spec to the one that runc gets
    storage, scsi, vpmem, …     disks, layers and shares
    network, netlink            interfaces and name resolution
    cgroups, stats              limits and statistics
"""
