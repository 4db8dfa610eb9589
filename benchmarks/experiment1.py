"""Experiment 1 with the paper's schedule: three seeds, every condition.

python benchmarks/experiment1.py --out results/exp1 --profile paper --backend stlsq
"""

from experiment2 import main


if __name__ == "__main__":
    main("exp1")
