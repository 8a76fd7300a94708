"""The bill of materials of a release: feddcd itself, and what it needs at a site."""

import email
import importlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

SAID = email.message_from_string("""\
Name: feddcd
Version: 7.1
Summary: tables
License-Expression: MIT
Requires-Dist: numpy>=2.0
Requires-Dist: tomli-w>=1.1
Requires-Dist: flwr==1.41.0; extra == "flower"
Requires-Dist: jax; extra == "train"
""")
BOM = {
    "specVersion": "1.6",
    "metadata": {"tools": {}},
    "components": [
        {"name": name, "bom-ref": f"line-{i}"}
        for i, name in enumerate(["cffi", "numpy", "tomli_w", "flwr"])
    ],
    "dependencies": [{"ref": "line-0"}],
}


@pytest.fixture
def materials(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("materials")


def test_the_package_is_the_root_of_its_bill(materials):
    made = materials.with_root(BOM, SAID, {"feddcd-7.1.tar.gz": "ab" * 32})
    root = made["metadata"]["component"]
    assert (root["name"], root["version"]) == ("feddcd", "7.1")
    assert root["purl"] == "pkg:pypi/feddcd@7.1"
    assert root["licenses"] == [{"expression": "MIT"}]
    assert root["externalReferences"][0]["hashes"][0]["content"] == "ab" * 32
    assert made["metadata"]["tools"] == {}
    assert made["dependencies"] == [
        {"ref": "pkg:pypi/feddcd@7.1", "dependsOn": ["line-1", "line-2", "line-3"]},
        {"ref": "line-0"},
    ]
    assert made["components"] == BOM["components"]
    assert "component" not in BOM["metadata"]


def test_a_bill_that_lacks_a_need_is_refused(materials):
    bom = json.loads(json.dumps(BOM))
    bom["components"].pop()
    with pytest.raises(SystemExit, match="lacks flwr"):
        materials.with_root(bom, SAID, {})


def test_a_release_calls_it():
    release = (ROOT / "Makefile").read_text().partition("\nrelease:")[2].partition("\n\n")[0]
    assert release.index("cyclonedx-py") < release.index("tools/materials.py dist")
