"""Runs PySR in a process of its own and talks to :mod:`sjepa_backends.pysr` in lines of JSON.

Stand-alone: needs the standard library, numpy and pysr, and never imports torch or sjepa, since
torch and Julia crash in one interpreter. Started by path, it must not find ``pysr.py`` of this
folder when it imports the real thing, so its own folder is taken off the search path first.

Protocol. Requests come in on standard input, one JSON object a line. The first one is
``{"protocol": 1, "token": ..., "directory": ...}``; every further one is a search. Answers go out
on what was standard output when the program started, one a line, each beginning with the token.
Julia and juliapkg print to the file descriptors 1 and 2 whatever Python does, so both are pointed
at the log (standard error), and standard input at nothing, which PySR would listen to otherwise.

=========  =========================================================================
answer     fields
=========  =========================================================================
hello      ``pysr``, ``julia``: versions
result     ``outputs``: for each output a list of ``[complexity, loss, equation]``;
           ``cpu``: seconds of processor time since the answer before
error      ``kind`` (import, julia, settings, fit), ``error`` (class), ``message``
=========  =========================================================================

Every line that PySR prints is progress; the log carries it as it comes. Before an answer the
token stands on a line of the log as well: what belongs to the answer is complete there.
"""

from __future__ import annotations

import difflib
import inspect
import io
import json
import os
import select
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any, TextIO


PROTOCOL = 1
# Regressors kept for warm starts, one for each kind of search seen lately.
MAX_MODELS = 8
# What may differ between two searches that continue each other.
PER_SEARCH = ("niterations", "timeout_in_seconds", "random_state")


class SettingsError(ValueError):
    """This version of PySR does not have an option that was asked for."""


def main() -> int:
    here = Path(__file__).resolve().parent
    sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != here]
    requests, answers = _take_over_pipes()
    first = json.loads(requests.readline() or "{}")
    if first.get("protocol") != PROTOCOL:
        print(f"expected protocol {PROTOCOL}, got {first.get('protocol')!r}", file=sys.stderr)
        return 2
    _die_with_parent(requests.fileno(), answers.fileno(), first["directory"])
    tempfile.tempdir = first["directory"]  # PySR writes its files there; the parent removes it

    def send(type_: str, **fields: Any) -> None:
        sys.stdout.flush()
        print(first["token"], file=sys.stderr, flush=True)  # nothing of this search comes after it
        answers.write(f"{first['token']} {json.dumps({'type': type_, **fields})}\n")
        answers.flush()

    try:
        session = Session()
    except Exception as error:
        send("error", **describe(error, "import" if isinstance(error, ImportError) else "julia"))
        return 3
    send("hello", pysr=session.version, julia=session.julia)
    spent = _cpu_time()  # starting is not part of a search
    for line in requests:
        try:
            outputs, before, spent = session.search(json.loads(line)), spent, _cpu_time()
            send("result", outputs=outputs, cpu=spent - before)
        except SettingsError as error:
            send("error", **describe(error, "settings"))
        except Exception as error:
            send("error", **describe(error, "fit"))
    return 0


def _cpu_time() -> float:
    """Of this process and of the Julia processes that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def describe(error: BaseException, kind: str) -> dict[str, str]:
    """An exception as plain data; Julia's come with a page of stack trace, so one line of it."""
    name = f"{type(error).__module__}.{type(error).__name__}".removeprefix("builtins.")
    try:
        text = str(error).split("Stacktrace:")[0]
    except Exception as second:  # Julia writes the text, and may fail to
        text = f"its text cannot be had ({type(second).__name__})"
    lines = [line.strip("# ") for line in text.strip().splitlines()] or [""]
    # A syntax error of Julia's has nothing but its kind on the first line.
    message = " ".join(filter(None, lines)) if lines[0].endswith(":") else lines[0]
    return {"kind": kind, "error": name, "message": message[:500]}


def _take_over_pipes() -> tuple[TextIO, TextIO]:
    """Keep the request and answer pipes to ourselves; the standard ones become log and nothing."""
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # or lines would wait for a full buffer
    return requests, answers


def _die_with_parent(requests: int, answers: int, directory: str) -> None:
    """Start a tiny process that kills this one when the other end of `requests` is gone, and
    removes its files, which the parent cannot do any more.

    Julia may hold the interpreter for the whole of a search, so no thread here would notice.
    """
    if not hasattr(os, "fork"):
        return
    worker = os.getpid()
    if os.fork():
        return
    try:
        for fd in (0, 1, 2, answers):  # nobody must wait for us to close these
            os.close(fd)
        poll = select.poll()
        poll.register(requests, 0)  # no events: reports nothing but the hang-up, reads nothing
        while os.getppid() == worker:
            if poll.poll(500):
                os.kill(worker, signal.SIGKILL)
                shutil.rmtree(directory, ignore_errors=True)
                break
    finally:
        os._exit(0)


class Session:
    """The imported PySR, and the regressors that a later search may continue from."""

    def __init__(self) -> None:
        import pysr

        self.pysr = pysr
        self.version = str(pysr.__version__)
        julia = getattr(getattr(pysr, "julia_import", None), "jl_version", ())
        self.julia = ".".join(map(str, julia))
        parameters = inspect.signature(pysr.PySRRegressor.__init__).parameters.values()
        named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        self.defaults = {p.name: p.default for p in parameters if p.kind in named}
        self.options = [name for name in self.defaults if name != "self"]
        self.arguments = inspect.signature(pysr.PySRRegressor.fit).parameters
        self.models: dict[str, Any] = {}

    def search(self, request: dict[str, Any]) -> list[list[list[Any]]]:
        """Run one search and return the rows of its hall of fame, for each output."""
        import numpy as np

        with np.load(request["data"], allow_pickle=False) as data:
            arrays = {name: data[name] for name in data.files}
        settings = self.settings(request)
        guesses = request.get("guesses")
        if "guesses" not in self.options:  # 1.x
            return self.continued(settings, arrays, request)
        if guesses and settings.get("guesses") is None:
            try:
                return self.fit(settings | {"guesses": guesses}, arrays, request)
            except Exception as error:
                if type(error).__name__ != "JuliaError":
                    raise
                # A guess that Julia cannot read is no reason to give up the search.
                print(f"Searching without guesses: {describe(error, 'fit')['message']}")
        return self.fit(settings, arrays, request)

    def settings(self, request: dict[str, Any]) -> dict[str, Any]:
        """Arguments of ``PySRRegressor``, with what JSON cannot carry put back."""
        settings = dict(request["settings"])
        for name in settings:
            if name not in self.options:
                close = difflib.get_close_matches(name, self.options, n=1)
                hint = f" Did you mean {close[0]!r}?" if close else ""
                raise SettingsError(f"PySR {self.version} has no option {name!r}.{hint}")
        if settings.get("batching") == "auto" and isinstance(self.defaults["batching"], bool):
            raise SettingsError(
                f"PySR {self.version} has no batching='auto': say True or False, or install PySR 2."
            )
        if settings.get("constraints"):
            settings["constraints"] = {
                k: tuple(v) if isinstance(v, list) else v
                for k, v in settings["constraints"].items()
            }
        if request.get("defined"):
            import sympy

            # PySR refuses operators without a SymPy form. Nothing here uses it: equations leave
            # as text, and the parent knows what the names mean.
            settings["extra_sympy_mappings"] = {n: sympy.Function(n) for n in request["defined"]}
        if request.get("template"):
            settings["expression_spec"] = self.built("TemplateExpressionSpec", request["template"])
        if request.get("logger"):
            self.require("TensorBoardLogger", "tensorboard")
            settings["logger_spec"] = self.built("TensorBoardLoggerSpec", request["logger"])
        missing = [name for name in request.get("units") or () if name not in self.arguments]
        if missing:
            raise SettingsError(f"PySR {self.version} knows no units ({missing[0]} of fit).")
        return settings

    def require(self, package: str, option: str) -> None:
        """Refuse what Julia would have to download in the middle of a search."""
        julia = getattr(self.pysr, "jl", None)
        if julia is not None and not julia.seval(f'Base.find_package("{package}") !== nothing'):
            raise SettingsError(
                f"{option} needs {package}.jl: leave it out, or install it once with a network "
                f"connection: import pysr; pysr.jl.seval('import Pkg; Pkg.add(\"{package}\")')"
            )

    def built(self, name: str, arguments: dict[str, Any]) -> Any:
        """One of PySR's own descriptions, if this version has it with these arguments."""
        kind = getattr(self.pysr, name, None)
        if kind is None:
            raise SettingsError(f"PySR {self.version} has no {name}: install PySR 1.5 or later.")
        known = inspect.signature(kind).parameters.values()
        names = {p.name for p in known}
        open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in known)
        for argument, value in arguments.items():
            if value is not None and argument not in names and not open_ended:
                raise SettingsError(f"{name} of PySR {self.version} has no {argument!r}.")
        return kind(**arguments)

    def continued(
        self, settings: dict[str, Any], arrays: dict[str, Any], request: dict[str, Any]
    ) -> list[list[list[Any]]]:
        """In 1.x only the same regressor can resume, with the same operators and outputs."""
        kind = {k: v for k, v in request["settings"].items() if k not in PER_SEARCH}
        shape = (arrays["inputs"].shape[1], arrays["targets"].shape[1:])
        key = json.dumps([kind, request.get("template"), shape], sort_keys=True, default=str)
        # Taken out first: after a failed fit the object is of no further use.
        model = self.models.pop(key, None)
        if not request.get("warm"):
            model = None
        if model is not None:
            model.set_params(**{k: settings[k] for k in PER_SEARCH if k in settings})
        return self.fit(settings | {"warm_start": True}, arrays, request, model, key)

    def fit(
        self,
        settings: dict[str, Any],
        arrays: dict[str, Any],
        request: dict[str, Any],
        model: Any = None,
        key: str | None = None,
    ) -> list[list[list[Any]]]:
        model = self.pysr.PySRRegressor(**settings) if model is None else model
        optional: dict[str, Any] = {}
        if "weights" in arrays:
            optional["weights"] = arrays["weights"]
        if request.get("complexity_of_variables"):
            optional["complexity_of_variables"] = request["complexity_of_variables"]
        optional |= request.get("units") or {}
        try:
            model.fit(arrays["inputs"], arrays["targets"], **optional)
        except RuntimeError as error:
            if "find equation file" not in str(error):
                raise
            # Out of time before the first iteration was over: nothing found, nothing wrong.
            return [[] for _ in range(arrays["targets"][:1].size)]
        if key is not None:
            self.models[key] = model
            while len(self.models) > MAX_MODELS:
                del self.models[next(iter(self.models))]
        frames = model.equations_ if isinstance(model.equations_, list) else [model.equations_]
        # The equation column holds floats when every equation is a constant.
        return [
            [
                [int(complexity), float(loss), str(equation)]
                for complexity, loss, equation in zip(
                    frame["complexity"], frame["loss"], frame["equation"], strict=True
                )
            ]
            for frame in frames
        ]


if __name__ == "__main__":
    sys.exit(main())
