"""Utility VMs as the host sees them: the compute system, its settings, and the host's end of the worker process. The
inside of the VM is `hcs_emulator.vm`.
"""
