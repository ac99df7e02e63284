"""Create a compute system, run a command in it, read its output and its exit code."""

import os

from shim.hcs_bindings.system import ComputeSystem

document = {"SchemaVersion": {"Major": 2, "Minor": 1}, "Owner": "hello", "Container": {}}
with ComputeSystem.create("hello", document) as system:
    system.start()
    with system.create_process({"CommandLine": "cmd /c echo hello", "CreateStdOutPipe": True}) as process:
        with os.fdopen(process.stdout, "rb") as output:
            print(output.read().decode().strip())
        print("exit code", process.wait_exit(10).code)
    system.terminate()
    system.wait_exit(10)
