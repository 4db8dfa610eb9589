"""The figures printed in the paper: mean and standard deviation over three seeds.

A missing entry is a dash in the paper, a deviation of None one that it does not give.
"""

from __future__ import annotations

from collections.abc import Mapping


Printed = tuple[float, float | None]

EXPERIMENT_1: Mapping[str, Mapping[str, Printed]] = {
    "neural_jepa": {
        "latent_mse": (9.81e-5, 3.93e-5),
        "test_rollout": (0.180, 0.066),
        "ood_rollout": (2.376, 1.433),
        "ood_divergence": (0.0, 0.0),
        "probe_r2_train": (0.849, 0.067),
        "probe_r2": (0.814, 0.063),
        "effective_rank": (1.9994, 0.0004),
        "state_mse": (0.171, 0.058),
    },
    "post_hoc": {
        "latent_mse": (2.09e-3, 2.48e-3),
        "omega_terms": (26.0, 3.24),
        "test_rollout": (1.229, 0.709),
        "ood_rollout": (9.262, 4.021),
        "ood_divergence": (0.178, 0.143),
        "probe_r2_train": (0.849, 0.067),
        "probe_r2": (0.814, 0.063),
        "effective_rank": (1.9994, 0.0004),
        "state_mse": (0.176, 0.063),
    },
    "sjepa": {
        "latent_mse": (5.81e-4, 4.39e-4),
        "omega_terms": (4.67, 2.49),
        "test_rollout": (0.467, 0.222),
        "ood_rollout": (3.435, 1.394),
        "ood_divergence": (0.017, 0.024),
        "min_std": (1.087, 0.012),
        "cov_trace": (2.406, 0.047),
        "probe_r2_train": (0.396, 0.295),
        "probe_r2": (0.293, 0.154),
        "effective_rank": (1.9996, 0.0001),
        "state_mse": (0.647, 0.141),
    },
    "one_step_collapse": {
        "latent_mse": (4.15e-7, 1.78e-7),
        "omega_terms": (0.0, 0.0),
        "min_std": (0.0137, 0.0023),
        "cov_trace": (6.53e-4, 1.82e-4),
        "probe_r2_train": (0.323, 0.041),
        "probe_r2": (0.308, 0.027),
        "effective_rank": (1.701, 0.201),
        "state_mse": (0.631, 0.026),
    },
    "fixed_point": {
        "latent_mse": (7.00e-10, 0.88e-10),
        "omega_terms": (0.0, 0.0),
        "min_std": (3.69e-5, 0.09e-5),
        "cov_trace": (1e-8, None),
        "probe_r2_train": (0.0, None),
        "probe_r2": (-0.016, None),
        "effective_rank": (0.0, None),
        "state_mse": (0.931, None),
    },
}

EXPERIMENT_2: Mapping[str, Mapping[str, Printed]] = {
    "symbolic_incomplete": {
        "state_mse": (1.630e-4, 0.001e-4),
        "field_mse": (0.0835, 0.00004),
        "omega_terms": (3.0, 0.0),
        "correction_ratio": (0.0, 0.0),
        "test_rollout": (1.280, 0.008),
        "ood_rollout": (1.274, 0.006),
        "coef_q_p": (0.9607, 0.0017),
        "coef_p_sin": (-0.8382, 0.0008),
    },
    "hybrid_regularised": {
        "state_mse": (2.474e-5, 0.083e-5),
        "field_mse": (0.0130, 0.0004),
        "omega_terms": (3.0, 0.0),
        "correction_ratio": (0.0627, 0.0012),
        "test_rollout": (0.0671, 0.0034),
        "ood_rollout": (0.1045, 0.0031),
        "residual_corr": (0.9969, 0.0002),
        "residual_r2": (0.9937, 0.0004),
        "drag_corr": (0.9495, 0.0014),
        "drag_r2": (0.9011, 0.0028),
        "coef_q_p": (0.9581, 0.0008),
        "coef_p_sin": (-0.7942, 0.0024),
    },
    "hybrid_unregularised": {
        "state_mse": (1.888e-5, 0.038e-5),
        "field_mse": (0.0114, 0.0003),
        "omega_terms": (3.0, 0.0),
        "correction_ratio": (0.555, 0.042),
        "test_rollout": (0.0879, 0.0141),
        "ood_rollout": (0.0778, 0.0081),
        "residual_corr": (0.9765, 0.0023),
        "residual_r2": (0.9532, 0.0047),
        "drag_corr": (0.4357, 0.0561),
        "drag_r2": (0.1885, 0.0506),
        "coef_q_p": (0.3324, 0.0065),
        "coef_p_sin": (-0.1718, 0.0746),
    },
    "symbolic_complete": {
        "state_mse": (1.573e-6, 0.017e-6),
        "field_mse": (7.79e-4, 0.07e-4),
        "omega_terms": (6.0, 0.0),
        "correction_ratio": (0.0, 0.0),
        "test_rollout": (0.00462, 0.00010),
        "ood_rollout": (0.00344, 0.00007),
        "coef_q_p": (0.9830, 0.0005),
        "coef_p_sin": (-0.9553, 0.0010),
        "coef_p_drag": (-0.3724, 0.0007),
    },
    "neural_only": {
        "state_mse": (1.746e-7, 0.216e-7),
        "field_mse": (3.85e-4, 0.35e-4),
        "test_rollout": (1.70e-4, 0.48e-4),
        "ood_rollout": (0.00184, 0.00012),
    },
}

AS_PUBLISHED = {"exp1": EXPERIMENT_1, "exp2": EXPERIMENT_2}
