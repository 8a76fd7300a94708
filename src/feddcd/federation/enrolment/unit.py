"""How a system starts a site or a coordinator: hardened systemd units, and a Dockerfile."""

import json
import os
import shlex
import sys
from importlib.metadata import version
from pathlib import Path

from ..._files import owner_only, shown
from ..._text import printable, sentence_list
from ..folder import machine_memory

_HEAD = """\
# With this file, the system starts {what}. Give these commands as the user {user}:
#   mkdir -p ~/.config/systemd/user && cp {path} ~/.config/systemd/user/
#   systemctl --user daemon-reload && systemctl --user enable --now {name}
#   loginctl enable-linger    # so that it also runs after this user has logged out
# If the account cannot use systemctl --user (a service account), use the file {other} instead.
"""
_SYSTEM_HEAD = """\
# With this file, the system starts {what} under the account {user}. Give these commands as root:
#   cp {path} /etc/systemd/system/{other}
#   systemctl daemon-reload && systemctl enable --now {other}
# Do not also use the file {other} of this folder: that file is for systemctl --user.
"""
ROOT = (
    "you work as root, so this site runs with all rights on this machine. A separate account with "
    "only the necessary rights is safer"
)
_ROOT = """\
# CAREFUL: root made this folder. A separate account with only the necessary rights is safer.
"""
_IN_TMP = """\
# CAREFUL: this unit sees no files of /tmp and /var/tmp (PrivateTmp=yes), so it cannot use
# {paths}. Choose folders outside /tmp and /var/tmp.
"""
TMP = (Path("/tmp"), Path("/var/tmp"))
_UNIT = """\
[Unit]
Description=feddcd {title}
# it tries again until there is a network
StartLimitIntervalSec=0

[Service]
{account}ExecStart={command} federation {verb} {folder}
# behind a proxy: Environment=HTTPS_PROXY=http://HOST:PORT
Restart=always
RestartSec=10
KillMode=mixed
TimeoutStopSec=30
UMask=0077
MemoryMax=75%
TasksMax={tasks}
NoNewPrivileges=yes
PrivateTmp=yes
ProtectSystem=strict
ProtectHome=read-only
InaccessiblePaths={hidden}
ReadWritePaths={folder}
{reads}ProtectKernelTunables=yes
ProtectControlGroups=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
LimitCORE=0
{more}
[Install]
WantedBy={target}
"""
_READS = """\
# the sign - lets the site start also while the data file is missing
ReadOnlyPaths={data}
"""
_OF_SYSTEM = """\
CapabilityBoundingSet=
PrivateDevices=yes
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectProc=invisible
RemoveIPC=yes
"""
HIDDEN = (".ssh", ".gnupg", ".aws", ".kube", ".docker")  # in the home of the user
TASKS = 2048  # processes and threads
_DOCKER_HEAD = """\
# With this file, the site '{site}' runs in Docker. The container opens no port.
# The image contains neither the site's folder nor the data. Give these commands:
"""
_DOCKER = """\
#   pip download --no-deps --no-binary feddcd feddcd=={version} && tar xzf feddcd-{version}.tar.gz
#   docker build -t feddcd-{site} -f {file} feddcd-{version}
#   docker run -d --name feddcd-{site} --restart=always --read-only --tmpfs /tmp --cap-drop=ALL \\
#     --security-opt=no-new-privileges --user {user} --pids-limit={tasks} {memory}\\
#     -v {folder}:{folder} {mount}feddcd-{site}
# Behind a proxy, add to docker build: --build-arg HTTPS_PROXY=http://HOST:PORT
# and to docker run: -e HTTPS_PROXY=http://HOST:PORT
# With SELinux, write :z after the folders of -v (after :ro write ,z).
{note}FROM python:{python}-slim
COPY . /opt/feddcd
RUN cd /opt/feddcd \\
 && pip install --no-cache-dir --no-deps --require-hashes -r requirements-site.lock \\
 && pip install --no-cache-dir --no-deps --no-build-isolation .
ENV HOME=/tmp PYTHONDONTWRITEBYTECODE=1
CMD {start}
"""
_FOLDER_NOTE = """\
# The container can read the whole folder of the data file, so keep no other files in it.
# A container that had only the data file would still read the old rows after: mv new.csv {data}
"""
IGNORED = "*\n"  # nothing of the site's folder goes into an image


def of_root() -> str:
    """What a person should know who works as root; nothing for another user."""
    return ROOT if getattr(os, "geteuid", lambda: 1)() == 0 else ""


def write_unit(folder: Path, site: str, data: Path) -> Path:
    """feddcd-NAME.service, in the site's folder, and a second one for a service account; nothing
    is installed."""
    reads = _READS.format(data=_quoted(f"-{data.resolve()}"))
    words = {"what": f"the site '{site}'", "title": f"site {site}", "verb": "site", "reads": reads}
    return _write_units(folder, f"feddcd-{site}", words, data.resolve())


def write_coordinator_unit(folder: Path) -> Path:
    """Also for the coordinator, in the folder of the federation."""
    words = {"what": "the coordinator", "title": "coordinator", "verb": "serve", "reads": ""}
    return _write_units(folder, "feddcd-coordinator", words)


def _in_tmp(*paths: Path) -> str:
    """What a unit with a /tmp of its own cannot find."""
    found = [printable(str(path)) for path in paths if any(tmp in path.parents for tmp in TMP)]
    return _IN_TMP.format(paths=sentence_list(found)) if found else ""


def _write_units(folder: Path, name: str, words: dict[str, str], *used: Path) -> Path:
    own = folder / f"{name}.service"
    system = system_unit(own)
    user, home = user_name(), Path.home()
    program = Path(sys.executable).with_name("feddcd")
    command = _quoted(str(program))
    at = _quoted(str(folder.resolve()))
    hidden = " ".join(_quoted(f"-{home / one}") for one in HIDDEN)
    plain = words | {"command": command, "folder": at, "hidden": hidden, "user": user}
    careful = _ROOT if user == "root" else ""
    careful += _in_tmp(program, folder.resolve(), *used)
    for path, head, other, target, account, more in (
        (own, _HEAD, system, "default.target", "", ""),
        (system, _SYSTEM_HEAD, own, "multi-user.target", f"User={user}\n", _OF_SYSTEM),
    ):
        place = shlex.quote(str(path.resolve()))
        top = head.format(path=place, name=path.name, other=other.name, **plain)
        body = _UNIT.format(target=target, account=account, more=more, tasks=TASKS, **plain)
        with owner_only():
            path.write_text(top + careful + body, "utf-8")
    return own


def user_name() -> str:
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, LookupError):  # on Windows; or a number without a name
        return str(os.getuid()) if hasattr(os, "getuid") else "USER"


def system_unit(unit: Path) -> Path:
    """The file for a service account, beside the one for `systemctl --user`."""
    return unit.with_name(f"{unit.stem}-system.service")


def start_words(unit: Path, what: str) -> str:
    """Which of the two files an account needs: a service account has no `systemctl --user`."""
    return (
        f"to start {what} automatically when the machine starts, read the first lines of one of "
        f"two files. For a service account, or as root: {shown(system_unit(unit))}. For an account "
        f"that can use 'systemctl --user': {shown(unit)}"
    )


def write_dockerfile(folder: Path, site: str, data: Path) -> Path:
    path, at = folder / "Dockerfile", folder.resolve()
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    user = f"{os.getuid()}:{os.getgid()}" if hasattr(os, "getuid") else "1000:1000"
    start = json.dumps(["feddcd", "federation", "site", str(at)])
    mount, note = _mounted(at, data.resolve())
    note += _ROOT if user.startswith("0:") else ""
    memory = f"--memory={3 * most // 4 >> 20}m " if (most := machine_memory()) else ""
    text = (_DOCKER_HEAD + _DOCKER).format(
        start=start, site=site, python=python, version=version("feddcd"), user=user, tasks=TASKS,
        file=shlex.quote(str(at / path.name)), folder=shlex.quote(str(at)), mount=mount, note=note,
        memory=memory,
    )  # fmt: skip
    path.write_text(text, "utf-8")
    (folder / ".dockerignore").write_text(IGNORED)
    return path


def beside(folder: Path, data: Path) -> bool:
    """Whether the data are in a folder with much else: the container can read all of it."""
    return data.resolve().parent in folder.resolve().parents


def _mounted(folder: Path, data: Path) -> tuple[str, str]:
    """How a container sees the data, and what a person should know. Of a file alone it would keep
    the one that was there when it started, whatever takes the name later."""
    if folder in data.parents:
        return "", ""
    at = shlex.quote(str(data.parent))
    return f"-v {at}:{at}:ro ", _FOLDER_NOTE.format(data=shlex.quote(data.name))


def _quoted(path: str) -> str:
    """For systemd: blanks and quotes as it reads them, and % twice."""
    text = path.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{text}"' if any(c in text for c in " \t'\"\\") else text
