"""A site of FedAvg: the same rows, the same local problem, the same solver."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from feddcd import tree
from feddcd.data.agreement import Agreed
from feddcd.data.federate import site_problem
from feddcd.data.tables import read_site
from feddcd.solvers import NewtonCG

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    node, run = context.node_config, context.run_config
    site = read_site(Path(str(node["data"])), str(node["label"]))
    agreed = Agreed(site.names or 0, tuple(float(k) for k in range(int(run["classes"]))))
    with jax.enable_x64(True):
        made = site_problem(site, agreed, l2=float(run["l2"]))
        f = tree.take(NewtonCG().prepare(made.problem), 0)
        (w,) = message.content["arrays"].to_numpy_ndarrays()
        solved = jax.jit(NewtonCG().__call__)(f, jnp.asarray(w), jax.random.key(0))
        new = np.asarray(solved.w)
    metrics = MetricRecord({"num-examples": len(site.labels)})
    return Message(RecordDict({"arrays": ArrayRecord([new]), "metrics": metrics}), reply_to=message)
