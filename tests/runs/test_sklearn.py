"""SJEPA behaves as scikit-learn expects, as far as trajectories allow."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import sjepa
from sjepa import SJEPA, Trajectories
from sjepa.callbacks import Callback, Step
from tests.docs.pages import ROOT


T = np.arange(0.0, 6.0, 0.05)
STATES = [
    a * np.stack([np.cos(1.3 * T + b), -np.sin(1.3 * T + b)], axis=1)
    for a, b in ((0.5, 0.0), (1.0, 1.0), (1.5, 2.0), (0.8, 3.0), (1.2, 4.0), (0.7, 5.0))
]

LIBRARY = sjepa.Library.polynomial(["z1", "z2"], 1)
MIXED = [s[:16] @ np.random.default_rng(5).normal(size=(2, 4)) for s in STATES]


class RowsInTime(SJEPA):
    """The second argument of `fit` is the times, where the checks give labels: rows in turn."""

    def fit(self, x: object, y: object = None) -> RowsInTime:  # type: ignore[override]
        return super().fit(x, 1.0)  # type: ignore[return-value]

    def fit_transform(self, x: object, y: object = None) -> object:  # type: ignore[override]
        return self.fit(x).transform(x)

    def score(self, x: object, y: object = None) -> float:  # type: ignore[override]
        return super().score(x, 1.0)


OWN_WORDS = "refused, with a message that names the trajectory"
NOT_APPLICABLE = {
    "check_complex_data": OWN_WORDS,
    "check_estimators_empty_data_messages": OWN_WORDS,
    "check_fit2d_1sample": OWN_WORDS,
    "check_dtype_object": "what is not a number is refused as a ValueError, not as a TypeError",
    "check_fit1d": "an array (T,) is one reading over time",
    "check_transformer_data_not_an_array": "a list is a list of trajectories",
}


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [RowsInTime(encoder="identity", backend="stlsq", verbose=False)],
    expected_failed_checks=lambda _: NOT_APPLICABLE,
)
def test_scikit_learns_own_checks(estimator: SJEPA, check: Callable[[SJEPA], None]) -> None:
    check(estimator)


def test_the_documentation_lists_the_checks_that_do_not_apply() -> None:
    page = (ROOT / "docs/howto/scikit-learn.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `(check_\w+)` \| (.*) \|$", page, re.M))
    assert listed == NOT_APPLICABLE


def test_all_parameters_are_stored_untouched_and_cloned() -> None:
    given = {
        "latent_dim": 3,
        "backend": {"name": "stlsq", "threshold": 0.2},
        "library": sjepa.Library.polynomial(["z1", "z2", "z3"], 2),
        "search": sjepa.Joint(restarts=2),
    }
    model = SJEPA(**given)
    for name, value in given.items():
        assert getattr(model, name) is value
    twin = clone(model)
    assert str(twin.get_params()) == str(model.get_params())
    assert not [name for name in vars(twin) if name.endswith("_")]


def test_fit_returns_the_model_and_leaves_its_parameters_alone() -> None:
    model = SJEPA(encoder="identity")
    before = model.get_params()
    assert model.fit(STATES, T) is model
    assert model.get_params() == before
    assert model.n_features_in_ == 2


@pytest.mark.filterwarnings("ignore:There is one trajectory")
def test_it_is_the_end_of_a_pipeline() -> None:
    pipeline = make_pipeline(StandardScaler(), SJEPA(encoder="identity"))
    pipeline.fit(STATES[2], T)
    law = pipeline[-1].law_
    # Shifted and scaled, the coordinates still rotate at the same speed.
    matrix = np.array(law.jacobian().tolist(), dtype=float)
    np.testing.assert_allclose(np.linalg.eigvals(matrix).imag, [1.3, -1.3], rtol=1e-3)
    assert pipeline.score(STATES[2], T) > 0.999
    assert pipeline.transform(STATES[2]).shape == STATES[2].shape
    both = SJEPA(encoder="identity").fit_transform(STATES, T)
    np.testing.assert_array_equal(np.stack(both), np.stack(STATES))
    scaled = Pipeline([("half", FunctionTransformer(lambda x: x / 2)), ("sjepa", SJEPA())])
    assert scaled.set_params(sjepa__latent_dim=1)["sjepa"].latent_dim == 1


def test_settings_are_chosen_by_cross_validation_over_trajectories() -> None:
    terms = {
        "right": sjepa.Library.from_terms(["z1", "z2"], ["z1", "z2"]),
        "wrong": sjepa.Library.from_terms(["z1*z2", "1"], ["z1", "z2"]),
    }
    search = GridSearchCV(SJEPA(encoder="identity"), {"library": list(terms.values())}, cv=KFold(3))
    with pytest.warns(sjepa.errors.NumericalWarning, match="a term is missing"):
        search.fit(STATES, [T] * len(STATES))
    assert search.best_params_["library"] is terms["right"]
    assert search.best_score_ > 0.999 and search.cv_results_["mean_test_score"][1] < 0.9


def test_times_of_all_trajectories_may_be_a_parameter_of_fit() -> None:
    grid = {"backend": ["stlsq", "subset"]}
    search = GridSearchCV(SJEPA(encoder="identity"), grid, cv=KFold(3)).fit(STATES, t=0.05)
    assert (search.cv_results_["mean_test_score"] > 0.999).all()


def test_trajectories_can_be_cross_validated_as_they_are() -> None:
    data = Trajectories(STATES, T)
    scores = cross_val_score(SJEPA(encoder="identity"), data, cv=3)
    assert (scores > 0.999).all()


def test_names_come_from_the_user_or_the_data(capsys: pytest.CaptureFixture[str]) -> None:
    frame = pd.DataFrame(STATES[2], columns=["angle", "speed"])
    with pytest.warns(sjepa.errors.DataWarning, match="one trajectory"):
        model = SJEPA(encoder="identity").fit(frame, T)
    assert model.feature_names_in_.tolist() == ["angle", "speed"]
    model.print(digits=2)
    assert capsys.readouterr().out == "angle' = 1.3*speed\nspeed' = -1.3*angle\n"
    named = SJEPA(encoder="identity").fit(sjepa.Trajectories(STATES, T, names=["q", "p"]))
    assert named.law_.inputs == ("q", "p")
    library = sjepa.Library.from_terms(["a", "b"], ["a", "b"])
    assert SJEPA(encoder="identity", library=library).fit(STATES, T).law_.outputs == ("a", "b")


class Recorder(Callback):
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.steps: list[Step] = []

    def on_start(self, model: object) -> None:
        self.calls.append("start")

    def on_step(self, step: Step) -> None:
        self.calls.append("step")
        self.steps.append(step)

    def on_cycle(self, step: Step) -> None:
        self.calls.append("cycle")

    def on_end(self, model: SJEPA) -> None:
        self.calls.append(f"end with {len(model.law_.outputs)} equations")


SHORT = {
    "cycles": 2, "warm_epochs": 2, "dynamics_epochs": 1, "space_epochs": 2, "validate_every": 1,
    "batch": 256, "horizon": 4,
}  # fmt: skip


def test_callbacks_are_told_what_happens() -> None:
    recorder = Recorder()
    assert isinstance(recorder, Callback)
    SJEPA(search=sjepa.Alternating(**SHORT), library=LIBRARY, verbose=[recorder]).fit(MIXED, T[:16])
    calls = ["start", *["step"] * 2, "cycle", *["step"] * 3, "cycle", *["step"] * 3, "cycle"]
    assert recorder.calls == [*calls, "end with 2 equations"]
    shares = [step.share for step in recorder.steps]
    assert shares == sorted(shares) and shares[-1] == 1.0
    last = recorder.steps[-1]
    assert (last.stage, last.cycle, last.cycles, last.epoch) == ("space_phase", 2, 2, 2)
    assert last.law is not None and "z1' = " in last.law
    assert last.risk is not None and last.complexity is not None


def test_tensorboard_gets_the_curves(tmp_path: object) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from sjepa.callbacks import TensorBoard

    model = SJEPA(search=sjepa.Alternating(**SHORT), library=LIBRARY, random_state=0)
    model.set_params(verbose=[TensorBoard(str(tmp_path))])
    model.fit(MIXED, T[:16])
    events = EventAccumulator(str(tmp_path)).Reload()
    risks = [event.value for event in events.Scalars("risk")]
    history = model.history_.query("metric == 'risk'")["value"]
    np.testing.assert_allclose(risks, history, rtol=1e-6)  # TensorBoard keeps single precision


def test_tensorboard_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from sjepa.callbacks import TensorBoard
    from sjepa.errors import MissingDependency

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingDependency, match="pip install tensorboard"):
        SJEPA(encoder="identity", verbose=[TensorBoard("nowhere")]).fit(STATES, T)
