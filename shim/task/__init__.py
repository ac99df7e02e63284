"""The task API: RPC <-> domain, pods, tasks, processes, stdio, events."""
