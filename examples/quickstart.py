"""Three methods on digits held by 20 clients: who needs how many uploads?"""

import feddcd

race = feddcd.compare(
    "digits",
    algorithms=["feddcd", "pointsaga", "fedavg"],
    partition="dirichlet:0.3",
    clients=20,
    tau=8,
    l2=1e-2,
    rounds=40,
)
print(race.to_pandas()[["uploads", "objective", "certified_gap", "accuracy"]])
print("proven optimum between", *race["pointsaga"].certificate[1::-1])
