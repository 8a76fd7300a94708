"""Each message is answered by a new process, which has an end: of time, and of memory.

On Linux it is forked from one that has one thread and has imported what a site needs: that takes
some milliseconds, importing Flower, JAX and this package two seconds. It imports while nobody
waits for it. Elsewhere forks are not safe, or not there.

    node             speaks with the link, beats, has threads
      fork server    one thread; ends with the node
        answer       for one message
"""

import gc
import multiprocessing
import os
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from flwr.app import Message
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_to_proto
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

from .._errors import FlowerError
from ._messages import unwrap, wrap

Answer = Callable[[bytes], bytes]


class Packed(NamedTuple):
    """A reply as it travels: itself, the names of its parts, and the parts."""

    message: bytes
    tree: bytes
    parts: dict[str, bytes]


class Overrun(Exception):
    """An answer that took too long."""


class Ended(Exception):
    """A process that ended without an answer."""


class Answering:
    """Starts a process for each message; `memory` is in bytes, 0 for no limit."""

    def __init__(self, answer: Answer, seconds: float, memory: int, how: str = "spawn"):
        self._answer, self._seconds, self._memory = answer, seconds, memory
        self._context: Any = multiprocessing.get_context(how)

    def __call__(self, id: str, parts: dict[str, bytes]) -> Packed:
        mine, theirs = self._context.Pipe(duplex=False)
        arguments = (theirs, self._answer, self._memory, id, parts)
        process = self._context.Process(target=_work, args=arguments, daemon=True)
        process.start()
        theirs.close()
        try:
            if not mine.poll(self._seconds):
                raise Overrun(
                    f"the answer would take longer than {self._seconds:g} s "
                    "(answer_seconds in site.toml)"
                )
            return mine.recv()
        except EOFError:
            process.join()
            raise Ended(
                f"the process that computes the answer ended with the exit code {process.exitcode}"
            ) from None
        finally:
            process.kill()
            process.join()
            mine.close()


class ForkServer:
    """Lets a process that is forked here and now, before there are threads, start the others."""

    def __init__(self, answering: Answering, prepare: Callable[[], None]):
        self._pipe, theirs = multiprocessing.Pipe()
        if not os.fork():
            self._pipe.close()  # so that it ends with the process that writes to it
            _fork_for(theirs, answering, prepare)
        theirs.close()

    def __call__(self, id: str, parts: dict[str, bytes]) -> Packed:
        try:
            self._pipe.send((id, parts))
            said = self._pipe.recv()
        except (EOFError, OSError):
            raise FlowerError("the process that answers for this site ended") from None
        if isinstance(said, Exception):
            raise said
        return said


def _fork_for(pipe: Any, answering: Answering, prepare: Callable[[], None]) -> None:
    while True:
        prepare()
        gc.freeze()  # the collector would touch, and so copy, what forks share
        try:
            id, parts = pipe.recv()
        except EOFError:
            os._exit(0)
        try:
            said = answering(id, parts)
        except (Overrun, Ended) as error:
            said = error
        pipe.send(said)


def start_answering(
    answer: Answer, seconds: float, memory: int, prepare: Callable[[], None] = lambda: None
) -> Answering | ForkServer:
    """To be called before any thread is started. `prepare` imports what the next answer may need;
    it is called again after each answer, and raises nothing."""
    if sys.platform == "linux":
        return ForkServer(Answering(answer, seconds, memory, "fork"), prepare)
    return Answering(answer, seconds, memory)


def _work(pipe: Connection, answer: Answer, memory: int, id: str, parts: dict[str, bytes]) -> None:
    if memory:
        _limit_memory(memory)
    pipe.send(_reply(id, parts, answer))


def _reply(id: str, parts: dict[str, bytes], answer: Answer) -> Packed:
    message = inflate_object_from_contents(id, parts)
    if not isinstance(message, Message):
        raise TypeError("no message")
    message.metadata.__dict__["_message_id"] = id  # as Flower does: a message does not hold its id
    reply = Message(wrap(answer(unwrap(message) or b"")), reply_to=message)
    return packed(reply)


def packed(reply: Message) -> Packed:
    reply.metadata.__dict__["_message_id"] = reply.object_id
    with no_object_id_recompute():
        head = message_to_proto(
            remove_content_from_message(reply) if reply.has_content() else reply
        )
        tree = get_object_tree(reply).SerializeToString()
        parts = {id: part.deflate() for id, part in get_all_nested_objects(reply).items()}
    return Packed(head.SerializeToString(), tree, parts)


def _limit_memory(memory: int) -> None:
    """What this process may still take; systems but Linux know the limit and do not keep it."""
    if sys.platform == "linux":
        import resource

        with open("/proc/self/statm") as file:
            held = int(file.read().split()[5]) * os.sysconf("SC_PAGE_SIZE")
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        limit = held + memory
        limit = limit if most == resource.RLIM_INFINITY else min(limit, most)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, most))
