"""How a system starts a site: a hardened systemd user unit, and a Dockerfile."""

import json
import os
import shlex
import sys
from importlib.metadata import version
from pathlib import Path

_UNIT_HEAD = """\
# With this file, the system starts the site {site}. Give these commands as the user who enrolled:
"""
_UNIT = """\
#   mkdir -p ~/.config/systemd/user && cp {name} ~/.config/systemd/user/
#   systemctl --user daemon-reload && systemctl --user enable --now {name}
#   loginctl enable-linger    # so that the site also runs when nobody is logged in
[Unit]
Description=feddcd site {site}
# the site tries again until there is a network
StartLimitIntervalSec=0

[Service]
ExecStart={command} federation site {folder}
Restart=always
RestartSec=10
KillMode=mixed
TimeoutStopSec=30
UMask=0077
NoNewPrivileges=yes
PrivateTmp=yes
ProtectSystem=strict
ProtectHome=read-only
ReadWritePaths={folder}
# the sign - lets the site start also while the data file is missing
ReadOnlyPaths={data}
ProtectKernelTunables=yes
ProtectControlGroups=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
LimitCORE=0

[Install]
WantedBy=default.target
"""
_DOCKER_HEAD = """\
# With this file, the site {site} runs in Docker. The container opens no port.
# The folder of the site and its data stay outside of the image. Give these commands:
"""
_DOCKER = """\
#   docker build -t feddcd-{site} -f {folder}/Dockerfile {folder}
#   docker run -d --restart=always --read-only --tmpfs /tmp --cap-drop=ALL \\
#     --security-opt=no-new-privileges --user {user} \\
#     -v {folder}:{folder} {mount}feddcd-{site}
{note}FROM python:{python}-slim
RUN pip install --no-cache-dir 'feddcd[flower]=={version}'
ENV HOME=/tmp PYTHONDONTWRITEBYTECODE=1
CMD {start}
"""
_FOLDER_NOTE = """\
# The container can read the whole folder of the data file, so keep no other files in it.
# A container that had only the data file would still read the old rows after: mv new.csv {data}
"""
_FILE_NOTE = """\
# After you replace the data file with mv, restart the container: it keeps the old rows until then.
"""
IGNORED = "*\n"  # nothing of the site's folder goes into an image


def write_unit(folder: Path, site: str, data: Path) -> Path:
    """feddcd-NAME.service, in the site's folder; nothing is installed."""
    path = folder / f"feddcd-{site}.service"
    command = Path(sys.executable).with_name("feddcd")
    words = {"command": command, "folder": folder.resolve(), "data": f"-{data.resolve()}"}
    quoted = {name: _quoted(str(word)) for name, word in words.items()}
    text = (_UNIT_HEAD + _UNIT).format(site=site, name=path.name, **quoted)
    path.write_text(text, "utf-8")
    return path


def write_dockerfile(folder: Path, site: str, data: Path) -> Path:
    path = folder / "Dockerfile"
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    user = f"{os.getuid()}:{os.getgid()}" if hasattr(os, "getuid") else "1000:1000"
    start = json.dumps(["feddcd", "federation", "site", str(folder.resolve())])
    mount, note = _mounted(folder.resolve(), data.resolve())
    text = (_DOCKER_HEAD + _DOCKER).format(
        start=start, site=site, python=python, version=version("feddcd"), user=user,
        folder=shlex.quote(str(folder.resolve())), mount=mount, note=note,
    )  # fmt: skip
    path.write_text(text, "utf-8")
    (folder / ".dockerignore").write_text(IGNORED)
    return path


def _mounted(folder: Path, data: Path) -> tuple[str, str]:
    """How a container sees the data, and what a person should know. Of a file alone it keeps the
    one that was there when it started, whatever takes the name later."""
    home = data.parent
    if folder in data.parents:
        return "", ""
    alone = home in folder.parents  # such a folder has much else
    at = shlex.quote(str(data if alone else home))
    note = _FILE_NOTE if alone else _FOLDER_NOTE.format(data=shlex.quote(data.name))
    return f"-v {at}:{at}:ro ", note


def _quoted(path: str) -> str:
    """For systemd: blanks and quotes as it reads them, and % twice."""
    text = path.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{text}"' if any(c in text for c in " \t'\"\\") else text
