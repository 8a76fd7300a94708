"""FedAvg as Flower brings it; the time after each round goes into a file."""

import json
import time
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    run = context.run_config
    times: list[float] = []

    def note(server_round: int, arrays: ArrayRecord) -> None:
        times.append(time.time())

    sites = int(run["sites"])
    strategy = FedAvg(
        fraction_evaluate=0.0,
        min_train_nodes=sites,
        min_available_nodes=sites,
    )
    w = np.zeros((int(run["features"]), int(run["classes"])))
    strategy.start(grid, ArrayRecord([w]), num_rounds=int(run["rounds"]), evaluate_fn=note)
    Path(str(run["folder"]), "fedavg.json").write_text(json.dumps(times))
