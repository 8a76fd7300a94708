"""The coordinator as a Flower ServerApp."""

from feddcd.engines.flower import server_app
from feddcd.federation import coordinate

app = server_app(coordinate)
