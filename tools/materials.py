"""Puts feddcd itself into the bill of materials of a release, which has what a site installs:

    python tools/materials.py dist

`make release` calls it with the library of CycloneDX installed. The version, the licence and the
direct needs are those of the wheel in this folder.
"""

import email
import email.message
import hashlib
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

EXTRAS = ("", "flower")  # of a site


def main(folder: Path) -> None:
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    files = {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in (wheel, source)}
    path = folder / "feddcd-site.cdx.json"
    text = json.dumps(with_root(json.loads(path.read_text()), said_by(wheel), files), indent=2)
    path.write_text(text + "\n")

    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    if wrong := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        sys.exit(f"{path} is not a bill of materials: {wrong}")


def said_by(wheel: Path) -> email.message.Message:
    with zipfile.ZipFile(wheel) as packed:
        (name,) = (each for each in packed.namelist() if each.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(packed.read(name))


def with_root(
    bom: dict[str, Any], said: email.message.Message, files: dict[str, str]
) -> dict[str, Any]:
    """The bill with the package as its root; `files` are those of the release, with digests."""
    name, version = said["Name"], said["Version"]
    parts = {canonicalize_name(each["name"]): each["bom-ref"] for each in bom["components"]}
    wishes = map(Requirement, said.get_all("Requires-Dist", []))
    direct = {canonicalize_name(wish.name) for wish in wishes if at_a_site(wish)}
    if lost := direct - parts.keys():
        sys.exit(f"the bill of materials lacks {', '.join(sorted(lost))}")
    root = {
        "type": "application",
        "bom-ref": f"pkg:pypi/{name}@{version}",
        "purl": f"pkg:pypi/{name}@{version}",
        "name": name,
        "version": version,
        "description": said["Summary"],
        "licenses": [{"expression": said["License-Expression"]}],
        "externalReferences": [
            {"type": "distribution", "url": file, "hashes": [{"alg": "SHA-256", "content": digest}]}
            for file, digest in files.items()
        ],
    }
    needs = {"ref": root["bom-ref"], "dependsOn": sorted(parts[each] for each in direct)}
    return bom | {
        "metadata": bom.get("metadata", {}) | {"component": root},
        "dependencies": [needs, *bom.get("dependencies", [])],
    }


def at_a_site(wish: Requirement) -> bool:
    return wish.marker is None or any(wish.marker.evaluate({"extra": each}) for each in EXTRAS)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
