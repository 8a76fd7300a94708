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
After=network-online.target
Wants=network-online.target
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
# The folder and the data stay outside of the image. Give these commands:
"""
_DOCKER = """\
#   docker build -t feddcd-{site} -f {folder}/Dockerfile {folder}
#   docker run -d --restart=always --read-only --tmpfs /tmp --cap-drop=ALL \\
#     --security-opt=no-new-privileges --user {user} \\
#     -v {folder}:{folder} -v {data}:{data}:ro feddcd-{site}
FROM python:{python}-slim
RUN pip install --no-cache-dir 'feddcd[flower]=={version}'
ENV HOME=/tmp PYTHONDONTWRITEBYTECODE=1
CMD {start}
"""
IGNORED = "*\n"  # nothing of the site's folder goes into an image


def write_unit(folder: Path, site: str, data: Path) -> Path:
    """feddcd-NAME.service, in the site's folder; nothing is installed."""
    path = folder / f"feddcd-{site}.service"
    command = Path(sys.executable).with_name("feddcd")
    words = {"command": command, "folder": folder.resolve(), "data": data.resolve()}
    quoted = {name: _quoted(word) for name, word in words.items()}
    text = (_UNIT_HEAD + _UNIT).format(site=site, name=path.name, **quoted)
    path.write_text(text, "utf-8")
    return path


def write_dockerfile(folder: Path, site: str, data: Path) -> Path:
    path = folder / "Dockerfile"
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    user = f"{os.getuid()}:{os.getgid()}" if hasattr(os, "getuid") else "1000:1000"
    start = json.dumps(["feddcd", "federation", "site", str(folder.resolve())])
    text = (_DOCKER_HEAD + _DOCKER).format(
        start=start, site=site, python=python, version=version("feddcd"), user=user,
        folder=shlex.quote(str(folder.resolve())), data=shlex.quote(str(data.resolve())),
    )  # fmt: skip
    path.write_text(text, "utf-8")
    (folder / ".dockerignore").write_text(IGNORED)
    return path


def _quoted(path: Path) -> str:
    """For systemd: blanks and quotes as it reads them, and % twice."""
    text = str(path).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{text}"' if any(c in text for c in " \t'\"\\") else text
