"""A ClientApp around a function from bytes to bytes."""

from collections.abc import Callable, Mapping
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from .wire import unwrap, wrap

Answer = Callable[[bytes, Mapping[str, Any], Mapping[str, Any]], bytes]


def client_app(answer: Answer) -> ClientApp:
    app = ClientApp()

    @app.train()
    @app.query()
    def handle(message: Message, context: Context) -> Message:
        data = answer(unwrap(message) or b"", context.node_config, context.run_config)
        return Message(wrap(data), reply_to=message)

    return app
