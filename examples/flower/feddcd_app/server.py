"""The coordinator as a Flower ServerApp."""

from feddcd.federation import coordinate
from feddcd.flower import server_app

app = server_app(coordinate)
