"""The images that critest's specs pull on Windows: stand-ins with one layer, which has directories only.

Wine cannot write the files of a Windows layer, so the programs of all images are those of the Wine prefix.
"""

from __future__ import annotations

from tests.support.oci_image import Image
from tests.support.oci_registry import Store
from tests.wine.test_cri import FOREVER, IMAGE, PLATFORM, directory_layer

WEB_SERVER = ["C:\\windows\\system32\\web-server.exe", "80"]
_E2E = "registry.k8s.io/e2e-test-images"
_TEST_IMAGE = "gcr.io/k8s-staging-cri-tools/win-test-image"

# References of the same image have the same value.
_REFERENCES = {
    IMAGE: "sandbox",
    f"{_E2E}/busybox:1.29-2": "busybox",
    f"{_E2E}/nginx:1.14-2": "nginx",
    "registry.k8s.io/pause:3.9": "pause",
    "k8s.gcr.io/pause:3.9": "pause",
    f"{_TEST_IMAGE}-latest:latest": "latest",
    f"{_TEST_IMAGE}-tag:test": "tag-test",
    f"{_TEST_IMAGE}-tag:all": "tag-all",
    **{f"{_TEST_IMAGE}-{number}:latest": f"image-{number}" for number in (1, 2, 3)},
    **{f"{_TEST_IMAGE}-tags:{number}": "tags" for number in (1, 2, 3)},
}


def build_store() -> Store:
    """Every image, by its reference. Each has a label with its name, so that no two have the same id."""
    built = {}
    layer = directory_layer()
    for name in set(_REFERENCES.values()):
        config = {"Cmd": WEB_SERVER if name == "nginx" else FOREVER, "Labels": {"name": name}}
        built[name] = Image(layer, PLATFORM, config)
    store = Store()
    for reference, name in _REFERENCES.items():
        store.add_image(reference, built[name])
    return store
