"""A process for each message, with limits; nothing but our own function is called."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("flwr")

from feddcd.federation.machine import serve

# in a process of its own: this one has threads, which forks do not survive
SCRIPT = """
import json, os, sys, time
import numpy as np
from flwr.app import Message
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.task_identity import TaskIdentity
from feddcd.flower._messages import unwrap, wrap
from feddcd.flower.answering import Ended, Overrun, packed, start_answering

def answer(question):
    if question == b"endless":
        time.sleep(60)
    if question == b"dies":
        os.kill(os.getpid(), 9)
    if question == b"large":
        try:
            return str(np.ones(1 << 27).sum()).encode()  # 1 GiB
        except MemoryError:
            return b"too large"
    return b"%d answers %s, prepared %d times" % (os.getpid(), question, len(prepared))

TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
prepared = []
answering = start_answering(answer, 300.0, 1 << 28, lambda: prepared.append(1))
hasty = start_answering(answer, 0.5, 0)
def ask(answering, question):
    message = packed(Message(wrap(question), 1, "train"))
    id = next(id for id, part in message.parts.items() if part.startswith(b"Message"))
    try:
        reply = answering(id, message.parts)
        id = next(id for id, part in reply.parts.items() if part.startswith(b"Message"))
        return unwrap(inflate_object_from_contents(id, reply.parts)).decode()
    except (Overrun, Ended) as error:
        return f"{type(error).__name__}: {error}"
said = [ask(answering, question) for question in (b"one", b"dies", b"large", b"two")]
said.append(ask(hasty, b"endless"))
for _ in range(600):  # the machine may be busy
    said[5:] = [ask(hasty, b"three")]
    if "Overrun" not in said[5]:
        break
print(json.dumps([os.getpid(), said]))
"""


def test_one_process_for_each_message():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    parent, (one, dies, large, two, endless, three) = json.loads(done.stdout)
    first, second = (int(said.split(" ")[0]) for said in (one, two))
    assert len({parent, first, second}) == 3
    assert one.endswith("answers one, prepared 1 times")
    assert two.endswith("answers two, prepared 4 times"), "after one was killed"
    assert (
        endless == "Overrun: the answer would take longer than 0.5 s (answer_seconds in site.toml)"
    )
    assert "answers three" in three, "after one was too slow"
    assert dies == "Ended: the process that computes the answer ended with the exit code -9"
    assert large == ("too large" if sys.platform == "linux" else large)


def test_a_site_imports_what_its_rules_of_now_allow(tmp_path, monkeypatch):
    """A site for tables loads no JAX; one that allows training later need not start anew."""
    imported, rules = [], tmp_path / "policy.toml"
    monkeypatch.setattr(serve, "import_module", imported.append)
    for text, names in (
        (None, [serve.TABLES]),
        ("training = true\ncomplete = true\n", [serve.TABLES, serve.TRAINING]),
        ("training = false\ncomplete = true\n", [serve.TABLES]),
        ("training = true\n", [serve.TABLES]),  # cut short
    ):
        if text is not None:
            rules.write_text(text)
        imported.clear()
        serve._prepare(tmp_path)
        assert imported == names, text
