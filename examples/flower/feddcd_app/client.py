"""A site as a Flower ClientApp; its data and its state come from the node config."""

from feddcd.federation import answer_node
from feddcd.flower import client_app

app = client_app(answer_node)
