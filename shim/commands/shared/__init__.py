"""A daemon that serves several pods (ShimScope `namespace` or `node`).

Each pod keeps a listening socket, calls, threads, log, events, ledger and panic log of its own; the pods share only the
process. So containerd sees one address per pod, as without sharing, and no request has to be routed. The daemon also
listens on a control socket, through which `start` hands over the next pod (`join`), with the protocol of the standby
(`shim.platform.linux.standby`). `daemon` is the process.
"""

#: In each bundle: a link to the file to which the process writes when it crashes. Each pod has a panic.log, too.
DAEMON_PANIC_LOG = "daemon-panic.log"
