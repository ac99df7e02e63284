"""`python.exe import_all.py FOLDER`: load every module of ours in an unpacked distribution, with nothing else to load
from. Prints what failed and how many there were."""

import hashlib
import linecache  # noqa: F401  # the launchers have it in them, as they have encodings
import os
import sys

folder, here = sys.argv[1], os.path.dirname(os.path.abspath(__file__))
before = set(sys.modules)
sys.path[:] = [os.path.join(folder, "lib")]
with open(os.path.join(here, "..", "..", "launcher", "windows", "boot.py"), encoding="utf-8") as file:
    boot = file.read()
with open(os.path.join(folder, "lib", "modules.bin"), "rb") as file:
    index = file.read(int.from_bytes(file.read(4), "little"))
exec(boot.replace("@INDEX_DIGEST@", hashlib.sha256(index).hexdigest()))

import json  # noqa: E402

failed = {}
names = [name for name in sys.meta_path[2].names() if name.partition(".")[0] in ("shim", "runhcs")]
for module in names:
    try:
        __import__(module)
    except Exception as error:
        failed[module] = repr(error)
for name in set(sys.modules) - before:
    spec = sys.modules[name].__spec__
    if spec is not None and "\\python\\" in str(spec.origin):
        failed[name] = "not from the distribution"
print(json.dumps([failed, len(names)]))
