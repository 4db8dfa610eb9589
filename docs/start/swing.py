"""Write swing.csv: four runs of a driven, damped pendulum, with noise, at uneven times."""

import numpy as np
import pandas as pd
from scipy.integrate import solve_ivp


rng = np.random.default_rng(0)
starts = {"exp-A": (1.2, 0.0), "exp-B": (-2.0, 0.5), "exp-C": (0.3, -1.5), "exp-D": (1.8, 0.0)}
tables = []
for run, start in starts.items():
    t = np.cumsum(rng.uniform(0.01, 0.05, 700))
    rate = rng.uniform(0.6, 1.2)

    def field(time: float, state: np.ndarray, rate: float = rate) -> list[float]:
        q, p = state
        return [p, -np.sin(q) - 0.2 * p + 0.5 * np.sin(rate * time)]

    path = solve_ivp(field, (0, t[-1]), start, t_eval=t, rtol=1e-9, atol=1e-9)
    q, p = path.y + 0.01 * rng.normal(size=path.y.shape)
    torque = 0.5 * np.sin(rate * t)
    tables.append(pd.DataFrame({"run": run, "t": t, "q": q, "p": p, "torque": torque}))
pd.concat(tables).round(4).to_csv("swing.csv", index=False)
