"""The text of a torch module stands alone and is the law."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sjepa.symbolic import Law
from tests.symbolic.test_exports import EVERYTHING, POINTS, operator_laws


def module_of(law: Law) -> Any:
    namespace: dict[str, Any] = {}
    exec(compile(law.torch_source(), "law", "exec"), namespace)  # our own output, not outside text
    return namespace["Law"]()


@pytest.mark.parametrize("law", [EVERYTHING, *operator_laws()], ids=lambda law: law.lines()[0][:30])
def test_the_module_gives_the_values_of_the_law_for_every_operator(law: Law) -> None:
    points = np.resize(np.abs(POINTS[:20]) + 0.3, (20, len(law.inputs)))
    module = module_of(law)
    values = module(torch.tensor(points)).detach().numpy()
    np.testing.assert_allclose(values, law.numpy()(points), rtol=1e-12, atol=1e-12)
    single = module(torch.tensor(points, dtype=torch.float32))
    assert single.dtype == torch.float32 and single.shape == (20, len(law.outputs))


def test_its_coefficients_are_those_of_the_law_and_train() -> None:
    law = Law.from_string(["p", "-0.9*sin(q) - 0.4*p*abs(p) + 0.1"], ["q", "p"])
    module, ours = module_of(law), law.torch()
    assert module.c.tolist() == ours.coefficients.tolist() == [1.0, 0.1, -0.4, -0.9]
    z = torch.tensor(POINTS)
    module(z).square().sum().backward()
    ours(z).square().sum().backward()
    torch.testing.assert_close(module.c.grad, ours.coefficients.grad)
    torch.testing.assert_close(torch.func.vmap(module)(z), module(z))


@pytest.mark.parametrize(
    "inputs",
    [["z", "w"], ["c", "np"], ["torch", "self"], ["zero", "nn"], ["Law", "law"], ["z", "z_"]],
)
def test_inputs_may_have_the_names_the_text_uses_itself(inputs: list[str]) -> None:
    a, b = inputs
    law = Law.from_string([f"{b} - 0.5*{a}", f"max(0.3*sin({a}), {b}, 0.2)"], inputs)
    expected = law.numpy()(POINTS)
    np.testing.assert_allclose(module_of(law)(torch.tensor(POINTS)).detach().numpy(), expected)
    namespace: dict[str, Any] = {}
    exec(compile(law.python(), "law", "exec"), namespace)
    np.testing.assert_allclose(namespace["law"](POINTS), expected)


def test_it_runs_where_this_package_is_not_imported(tmp_path: Path) -> None:
    law = Law.from_string(["p", "-0.9*sin(q)"], ["q", "p"])
    (tmp_path / "pendulum.py").write_text(law.torch_source())
    code = (
        "import sys, torch, pendulum\n"
        "assert not any(name.startswith('sjepa') for name in sys.modules)\n"
        "print(pendulum.Law()(torch.tensor([0.5, 2.0], dtype=torch.float64)).tolist())\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert json.loads(out.stdout) == pytest.approx([2.0, -0.9 * np.sin(0.5)])
