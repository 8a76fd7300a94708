"""A site as a Flower ClientApp; its data and its state come from the node config."""

from feddcd.engines.flower import client_app
from feddcd.federation import answer_node

app = client_app(answer_node)
