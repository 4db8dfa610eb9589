"""A stand-in for the package pysr, for driving the real worker without Julia.

Installed by the tests as ``pysr/__init__.py``. It has the option names of a real version,
records what it is asked in a file, prints as Julia does, past Python, and returns the rows it was
given. Settings come from environment variables that start with PYTHON_STANDIN_.
"""

import inspect
import json
import os
import signal
import sys
import tempfile
import time
from urllib.error import URLError

import numpy as np
import pandas as pd


def _setting(name: str, default: str = "") -> str:
    return os.environ.get(f"PYTHON_STANDIN_{name}", default)


print("[juliapkg] Locating Julia 1.10.3 - 1.11", flush=True)
match _setting("IMPORT"):
    case "offline":
        raise Exception("could not find Julia 1.10.3 - 1.11")
    case "download":
        raise URLError("[Errno -2] Name or service not known")
    case "bad executable":
        raise Exception("juliapkg_exe=/nonexistent/julia is not a Julia executable.")
    case "missing":
        raise ModuleNotFoundError("No module named 'juliacall'", name="juliacall")
    case "crash":
        os.kill(os.getpid(), signal.SIGSEGV)

__version__ = _setting("VERSION", "2.7.2")
with open(_setting("OPTIONS"), encoding="utf-8") as file:
    SIGNATURES = json.load(file)[__version__]
OPTIONS = SIGNATURES["PySRRegressor"]


class JuliaError(Exception):
    """Looks like juliacall's."""

    def __str__(self):
        if _setting("MUTE"):  # Julia itself writes the text
            raise JuliaError("showerror failed")
        return super().__str__()


if _setting("PACKAGES"):

    class jl:
        @staticmethod
        def seval(code):
            return any(f'find_package("{p}")' in code for p in _setting("PACKAGES").split(","))


if "TemplateExpressionSpec" in SIGNATURES:

    class TemplateExpressionSpec:
        def __init__(self, combine, *, expressions, variable_names, parameters=None):
            self.given = [combine, expressions, variable_names, parameters]


if "TensorBoardLoggerSpec" in SIGNATURES:

    class TensorBoardLoggerSpec:
        def __init__(self, log_dir="logs/run", log_interval=1, overwrite=False):
            self.given = log_dir


def _keep(outputs):
    """As PySR writes its hall of fame; the last row is not whole yet, as in the middle of writing."""
    folder = tempfile.mkdtemp()
    for i, rows in enumerate(outputs):
        path = os.path.join(folder, f"hall_of_fame_output{i + 1}.csv")
        lines = [f'{c},{loss},"{equation}"' for c, loss, equation in rows]
        for name, text in (("", "\n".join(lines[:-1])), (".bak", "\n".join(lines))):
            with open(path + name, "w", encoding="utf-8") as file:
                file.write("Complexity,Loss,Equation\n" + text + "\n7,0.1")


class PySRRegressor:
    def __init__(self, **options):
        for name, value in options.items():
            if name not in OPTIONS:
                raise TypeError(f"`{name}` is not a valid keyword argument for PySRRegressor.")
            setattr(self, name, value)
        self.options = options
        self.fits = 0

    def set_params(self, **options):
        self.options = self.options | options

    def fit(self, X, y, weights=None, complexity_of_variables=None, X_units=None, y_units=None):
        assert weights is None or weights.shape == y.shape
        self.fits += 1
        template = self.options.get("expression_spec")
        record = {
            "pid": os.getpid(),
            "options": {
                k: v
                for k, v in self.options.items()
                if k not in ("extra_sympy_mappings", "expression_spec", "logger_spec")
            },
            "tuples": [
                k for k, v in self.options.get("constraints", {}).items() if type(v) is tuple
            ],
            "mappings": sorted(self.options.get("extra_sympy_mappings") or {}),
            "template": template and template.given,
            "logs": getattr(self.options.get("logger_spec"), "given", None),
            "units": [X_units, y_units],
            "complexity_of_variables": complexity_of_variables,
            "inputs": np.asarray(X).tolist(),
            "targets": np.asarray(y).tolist(),
            "weights": None if weights is None else np.asarray(weights).tolist(),
            "fits": self.fits,
            "folder": tempfile.gettempdir(),
            "modules": [m for m in ("torch", "sjepa", "sjepa_backends") if m in sys.modules],
        }
        with open(_setting("LOG"), "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        os.write(2, b"Compiling Julia backend...\n")
        time.sleep(float(_setting("COMPILE", "0")))
        os.write(1, b"\x1b[32mProgress: 3 / 12 total iterations (25.000%)\x1b[0m\n")
        os.write(2, "5           3.045e+00  1.063e-02  y = (x₀ * x₀) + -0.25544\n".encode())
        end = time.process_time() + float(_setting("WORK", "0"))
        while time.process_time() < end:
            pass
        if _setting("FIT") == "hangs":
            if _setting("KEPT"):
                _keep(json.loads(_setting("ROWS")))
                os.write(2, "5           3.045e+00  1.063e-02  y₁ = x₀\n".encode())
            time.sleep(60)
        if _setting("FIT") == "finds nothing":
            raise RuntimeError("Couldn't find equation file! The equation search likely exited")
        if _setting("FIT") == "fails":
            if _setting("SYNTAX"):
                raise JuliaError(
                    "ParseError:\n# Error @ none:1:13\nbad(x) = x +\n"
                    "#           └ ── premature end of input\nStacktrace:\n [1] top-level scope"
                )
            raise JuliaError("UndefVarError: `nosuchop` not defined\nStacktrace:\n [1] top-level")
        if any("tanh" in g for texts in self.options.get("guesses") or [] for g in texts):
            raise JuliaError("ArgumentError: Unrecognized operator: `tanh`\nStacktrace:")
        rows = json.loads(_setting("ROWS"))[: 1 if y.ndim == 1 else y.shape[1]]
        frames = [pd.DataFrame(r, columns=["complexity", "loss", "equation"]) for r in rows]
        self.equations_ = frames[0] if y.ndim == 1 else frames
        return self


# The names of the real version's options, and how this one differs, are all the worker looks at.
DEFAULTS = {"batching": "auto" if __version__.startswith("2.") else False}
PySRRegressor.__init__.__signature__ = inspect.Signature(
    [
        inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        *(
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=DEFAULTS.get(name, None)
            )
            for name in OPTIONS
        ),
        inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
    ]
)
