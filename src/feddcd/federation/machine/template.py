"""The Flower app: a few lines over this package. `examples/flower` is the same."""

from importlib.metadata import version
from pathlib import Path

PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "feddcd-app"
version = "{version}"
description = "Federated optimisation from the dual side, on Flower."
license = "MIT"
dependencies = ["feddcd[flower]"]

[tool.flwr.app]
publisher = "feddcd"

[tool.flwr.app.components]
serverapp = "feddcd_app.server:app"
clientapp = "feddcd_app.client:app"

# folder: that of the federation, made by `feddcd federation init`
# rounds: 0 takes what its federation.toml says
[tool.flwr.app.config]
folder = ""
rounds = 0
"""

SERVER = '''\
"""The coordinator as a Flower ServerApp."""

from feddcd.federation import coordinate
from feddcd.flower import server_app

app = server_app(coordinate)
'''

CLIENT = '''\
"""A site as a Flower ClientApp; its data and its state come from the node config."""

from feddcd.federation import answer_node
from feddcd.flower import client_app

app = client_app(answer_node)
'''


def files() -> dict[str, str]:
    return {
        "pyproject.toml": PROJECT.format(version=version("feddcd")),
        "feddcd_app/__init__.py": "",
        "feddcd_app/server.py": SERVER,
        "feddcd_app/client.py": CLIENT,
    }


def write_app(folder: Path) -> None:
    for name, text in files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
