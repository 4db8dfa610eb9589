"""Folders and files that somebody made up to run a program, read or write elsewhere, or never end.

    python -m tests.robustness.hostile 200 --seed 7

Every case is a folder of its own and a command that meets it. It holds if the command is refused
in one printable line, and if meanwhile no program was started, no connection made, nothing outside
the folder written and nothing of its neighbor ``secret`` opened.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import random
import resource
import shutil
import signal
import struct
import sys
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.command import run as command
from tests.runs.small import oscillators


# Leaves a file behind wherever it runs: as shell, Python, Julia, or a pickle.
SHELL = "touch ran"
PYTHON = [
    "__import__('os').system('touch ran')", "(lambda: open('ran', 'w'))()", "x.__class__.__mro__",
    "exec('import os')", "eval('1')", "open('ran','w')", "[c for c in ().__class__.__bases__]",
    "getattr(x, '__init__')", "f'{x}'", "x if x else x", "x := 1", "x\n\nimport os", "9**9**9**9",
    "(" * 400 + "x" + ")" * 400, "sin(" * 300 + "x" + ")" * 300, "x" + "+x" * 20_000, "\x1b[2Jx",
]  # fmt: skip
JULIA = {
    "command": ["/bin/sh", "-c", SHELL],
    "elementwise_loss": f"f(x, y) = (run(`{SHELL}`); abs(x - y))",
    "loss_function": f"f(t, d, o) = run(`{SHELL}`)",
    "options": {"binary_operators": [f"g(x, y) = (run(`{SHELL}`); x)"]},
    "template": {"combine": f"f(q) #= =#; run(`{SHELL}`)", "expressions": ["f"]},
    "cluster_manager": "slurm",
    "hall_of_fame": "../secret",
    "tensorboard": "../secret",
}
FILES = ("run.json", "config.json", "law.json", "metrics.parquet", "model.safetensors")


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (SHELL,)


@dataclass
class Case:
    """What is in the folder, and how somebody meets it."""

    name: str
    command: list[str]
    harmless: bool = False  # may also be answered, as long as what it says is printable


@dataclass
class Place:
    """Where a case is made: its folder, a neighbor it must not touch, good files to spoil."""

    folder: Path
    secret: Path
    good: Path
    rng: random.Random

    def run(self, finished: bool = True) -> Path:
        shutil.copytree(self.good / "run", self.folder / "run")
        if not finished:
            (self.folder / "run" / "config.json").unlink()
        return self.folder / "run"

    def asked(self, change: Callable[[dict[str, Any]], None], finished: bool = False) -> None:
        path = self.run(finished) / "run.json"
        said = json.loads(path.read_text())
        change(said["asked"])
        path.write_text(json.dumps(said))

    def data(self) -> str:
        shutil.copy(self.good / "data.csv", self.folder / "data.csv")
        return "data.csv"

    def put(self, name: str, content: bytes | str) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return name

    def replace(self, path: Path) -> str:
        """Something that is no plain file, under the name of one."""
        path.unlink(missing_ok=True)
        kind = self.rng.choice(["link", "pipe", "device", "itself", "folder"])
        if kind == "link":
            path.symlink_to(self.secret / ("secret" + (path.suffix or ".csv")))
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind == "device":
            path.symlink_to("/dev/zero")
        elif kind == "itself":
            path.symlink_to(path)
        else:
            path.mkdir()
        return kind


Maker = Callable[[Place], Case]
RESUME = ["fit", "--resume=run"]


def run_with_code(p: Place) -> Case:
    name = p.rng.choice(list(JULIA))
    backend: Any = {"name": "pysr", name: JULIA[name]}
    if p.rng.random() < 0.5:
        backend = p.rng.choice([[backend], ["stlsq", backend], {"name": [backend]}])
    p.asked(lambda a: a["settings"].update(backend=backend))
    return Case(f"run with {name}", RESUME)


def run_with_settings(p: Place) -> Case:
    text = p.rng.choice(PYTHON)
    key, value = p.rng.choice(
        [
            ("library", {"library": {"inputs": ["x"], "terms": [text]}}),
            ("library", [text]),
            ("grammar", {"grammar": {"operators": [text], "inputs": ["x"]}}),
            ("encoder", f"torchscript:{p.secret}/secret.pt"),
            ("encoder", text),
            ("backend", text),
            ("backend", {"name": "operon", "options": {"symbolic_mode": text}}),
            ("backend", {"name": "pysindy", "options": {"thresholder": text}}),
            ("search", {"name": "joint", "integrator": text}),
            ("search", text),
            ("search", {"name": "joint", text: 1}),
            ("correction", {"name": "neural", "bound": text}),
            ("delta", "x" * 5000),
            ("os.system", SHELL),
            ("verbose", [SHELL]),
            ("latent_dim", -(2**70)),
        ]
    )
    p.asked(lambda a: a["settings"].update({key: value}))
    return Case(f"run with {key}", [*RESUME[:1], p.data(), *RESUME[1:]])


def run_that_reads_elsewhere(p: Place) -> Case:
    link = p.folder / "inside.csv"
    link.symlink_to(p.secret / "secret.csv")
    paths = [p.secret / "secret.csv", "../secret/secret.csv", link, "/dev/zero", "/proc/self/mem"]
    path = str(p.rng.choice([*paths, f"file://{p.secret}/secret.csv", "\x1b]0;a\x07.csv", "a\0b"]))
    p.asked(lambda a: a["data"].update(path=path, stamp=p.rng.choice(["", "0 0", None])))
    return Case("run that names data", RESUME)


def run_of_other_things(p: Place) -> Case:
    name = p.rng.choice([*FILES, ".lock", "log.txt"])
    unfinished = name in (".lock", "log.txt")
    path = p.run(finished=not unfinished) / name
    kind = p.replace(path)
    commands = [RESUME] if unfinished or name == "run.json" else [
        ["simulate", "run", "--start=1,0", "--times=0,1"], ["encode", "run", p.data()],
        ["report", "run"], RESUME,
    ]  # fmt: skip
    if unfinished:
        p.data()
        commands = [["fit", "data.csv", "--resume=run"]]
    return Case(f"{name} is a {kind}", p.rng.choice(commands))


def run_of_pickles(p: Place) -> Case:
    name = p.rng.choice(FILES[1:])
    path = p.run() / name
    path.write_bytes(pickle.dumps(Bomb()))
    return Case(f"{name} is a pickle", ["simulate", "run", "--start=1,0", "--times=0,1"])


def checkpoint_of_pickles(p: Place) -> Case:
    path = p.run(finished=False) / "checkpoint.safetensors"
    path.write_bytes(pickle.dumps(Bomb()))
    said = json.loads((p.folder / "run" / "run.json").read_text())
    said["version"] = p.rng.choice([2, 0, -1, "1", None, 10**30])
    (p.folder / "run" / "run.json").write_text(json.dumps(said))
    return Case("run of another version, with a pickle", ["fit", p.data(), "--resume=run"])


def run_that_is_not_json(p: Place) -> Case:
    path = p.run() / p.rng.choice(["run.json", "config.json"])
    text = p.rng.choice(
        ["[" * 100_000, '{"a":' * 50_000, "null", "NaN", "\xff\xfe", '{"format": 1}']
    )
    path.write_text(text)
    name = "--resume=run" if path.name == "run.json" else "run"
    return Case(f"{path.name} is {text[:12]!r}", ["fit" if name != "run" else "report", name])


def config(p: Place) -> Case:
    name = p.rng.choice(list(JULIA))
    value = _toml({"name": "pysr", name: JULIA[name]})
    text = p.rng.choice(PYTHON)
    lines = [
        f"backend = {value}", f"backend = {value}\ntrust = true", "trust = true",
        'out = "../secret/run"', f'tensorboard = "{p.secret}"', 'resume = "../secret"',
        f'data = "{p.secret}/secret.csv"', 'data = "/dev/zero"', "__import__ = 'os'",
        f"terms = {json.dumps(text)}", f"encoder = {json.dumps(text)}", "latent-dim = 1e400",
        "a = " + "[" * 50_000, "backend = [[[]]]", "backend = { name = 'stlsq', x = 1 }",
        f"search = {json.dumps(text)}", "out = { a = 1 }", f"integrator = {json.dumps(SHELL)}",
    ]  # fmt: skip
    line = p.rng.choice(lines)
    p.put("fit.toml", line + "\n")
    return Case(f"config {line[:40]!r}", ["fit", p.data(), "--id=run", "--config=fit.toml"])


def config_that_is_no_file(p: Place) -> Case:
    kind = p.replace(p.folder / "fit.toml")
    return Case(f"config is a {kind}", ["discover", p.data(), "--config=fit.toml"])


LAW_COMMANDS = (["export"], ["simulate", "--start=1", "--times=0,1"], ["report"])


def law(p: Place) -> Case:
    good = json.loads((p.good / "run" / "law.json").read_text())
    text = p.rng.choice(PYTHON)
    spots = [["expressions"], ["inputs"], ["outputs"], ["dynamics"], ["format"], ["version"], []]
    spot = p.rng.choice(spots)
    if spot:
        value = good.get(spot[0])
        good[spot[0]] = [text] * len(value) if isinstance(value, list) else text
    p.put("law.json", json.dumps(good if spot else [text]))
    first, *rest = p.rng.choice(LAW_COMMANDS)
    return Case(f"law with {spot} {text[:20]!r}", [first, "law.json", *rest])


def law_of_pysr(p: Place) -> Case:
    text = p.rng.choice(PYTHON).replace("\n", " ").replace('"', '""')
    p.put("hall_of_fame.csv", f'Complexity,Loss,Equation\n1,0.5,"{text}"\n')
    first, *rest = p.rng.choice(LAW_COMMANDS)
    return Case(f"hall of fame with {text[:20]!r}", [first, "hall_of_fame.csv", *rest])


def law_that_is_no_file(p: Place) -> Case:
    name = p.rng.choice(["law.json", "hall_of_fame.csv"])
    kind = p.replace(p.folder / name)
    if kind == "folder":
        (p.folder / name / "law.json").symlink_to(p.secret / "secret.json")
    first, *rest = p.rng.choice(LAW_COMMANDS)
    return Case(f"{name} is a {kind}", [first, name, *rest])


def table(p: Place) -> Case:
    n = p.rng.randrange(2, 6)
    rows = "".join(f"{i},{i * i},{-i}\n" for i in range(n))
    texts = [
        "t,a,a\n" + rows, "t,a\x1b[31m,b\x1b[0m\n" + rows, "t,a,=cmd|' /C calc'!A0\n0,1,=cmd|'x'!A0\n",
        "t,a,b\n0,1,2,3\n1,2,3,4\n", "t;a;b\n0;1;2\n", "t,a,b\n", "\0" * 1000, "t,a,b\n0,1,1e999\n1,2,3\n",
        "t,a,b\n" + "9" * 400_000 + ",1,2\n", "t" + ",a" * 50_000 + "\n", '"' * 10_000,
        "t,a,__import__('os')\n0,1,x\n1,2,y\n", "time,time,a\n" + rows, "t,a,b\n1,1,1\n0,2,2\n",
    ]  # fmt: skip
    text = p.rng.choice(texts)
    # Names with control characters are written without them.
    return Case(f"csv {text[:24]!r}", ["discover", p.put("a.csv", text)], "\x1b" in text)


def archive(p: Place) -> Case:
    kind = p.rng.choice(["pickle", "bomb", "lies", "cut"])
    path = p.folder / "a.npz"
    if kind == "pickle":
        np.savez(path, x=np.array([Bomb(), 1.0], dtype=object), t=np.arange(2.0))
    elif kind == "bomb":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({2**26},), }}"
            zeros = bytes(2**20)
            with file.open("x.npy", "w", force_zip64=True) as out:
                out.write(
                    b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head) + 1) + head.encode() + b"\n"
                )
                for _ in range(p.rng.randrange(400, 600)):
                    out.write(zeros)
    elif kind == "lies":
        head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({2 ** p.rng.randrange(36, 60)},), }}\n"
        with zipfile.ZipFile(path, "w") as file:
            file.writestr(
                "x.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode()
            )
            file.writestr("t.npy", b"")
    else:
        np.savez(path, x=np.ones((5, 2)), t=np.arange(5.0))
        path.write_bytes(path.read_bytes()[: p.rng.randrange(1, 300)])
    return Case(f"npz: {kind}", ["discover", "a.npz"])


def hdf5(p: Place) -> Case:
    import h5py

    kind = p.rng.choice(["link", "storage", "sparse"])
    with h5py.File(p.folder / "a.h5", "w") as file:
        file["t"] = np.arange(10.0)
        if kind == "link":
            file["x"] = h5py.ExternalLink(str(p.secret / "secret.h5"), "/x")
        elif kind == "storage":
            where = [(str(p.secret / "secret.csv"), 0, 160)]
            file.create_dataset("x", (10, 2), dtype="f8", external=where)
        else:
            size = 2 ** p.rng.randrange(29, 33)
            file.create_dataset("x", (size,), dtype="f8", chunks=(2**20,), fillvalue=1.0)
    return Case(f"hdf5: {kind}", ["discover", "a.h5"])


def data_elsewhere(p: Place) -> Case:
    """Files in a folder of data, or in place of one, that are not what their names say."""
    name = p.rng.choice(["a.csv", "a.npz", "a.parquet", "a.h5", "a.png", "a.gif", "a.mp4"])
    place = p.folder / "data"
    place.mkdir()
    kind = p.replace(place / name)
    if p.rng.random() < 0.3:
        for link in ("one", "two"):
            (place / link).symlink_to(place, target_is_directory=True)
    return Case(f"{name} in a folder is a {kind}", ["discover", "data", "--time=0.1"])


def _png(width: int, height: int) -> bytes:
    packer, row = zlib.compressobj(9), bytes(1 + -(-width // 8))
    data = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)), (b"IDAT", data),
        (b"IEND", b""),
    ]  # fmt: skip
    body = [
        struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(body)


def picture(p: Place) -> Case:
    kind = p.rng.choice(["bomb", "PostScript", "lies", "cut", "text"])
    ending = p.rng.choice(["png", "jpg", "tif", "bmp"])
    side = p.rng.randrange(6_000, 12_000)
    content = {
        "bomb": lambda: _png(side, side),
        "PostScript": lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(ran) (w) file\n",
        "lies": lambda: _png(9, 9)[:16] + struct.pack(">II", 2**31 - 1, side) + _png(9, 9)[24:],
        "cut": lambda: _png(99, 99)[: p.rng.randrange(20, 60)],
        "text": lambda: b"<svg xmlns:xlink='http://www.w3.org/1999/xlink'><image xlink:href='../secret'/>",
    }[kind]()  # fmt: skip
    for k in range(2):
        p.put(f"data/{k}.{ending}", content)
    return Case(f"picture: {kind}", ["discover", "data", "--time=0.1"])


def video(p: Place) -> Case:
    ending = p.rng.choice(["mp4", "mkv", "avi", "mov", "webm", "gif"])
    port = p.rng.randrange(20_000, 60_000)
    texts = [
        f"ffconcat version 1.0\nfile {p.secret}/secret.mp4\n",
        f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{p.secret}/secret.mp4\n#EXT-X-ENDLIST\n",
        f"v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video {port} RTP/AVP 96\n",
        "<MPD><Period><BaseURL>http://127.0.0.1:9/</BaseURL></Period></MPD>",
        "rtsp://127.0.0.1:9/a", "RIFF\xff\xff\xff\xffAVI LIST", "GIF89a\xff\xff\xff\xff\xf7\0\0",
    ]  # fmt: skip
    text = p.rng.choice(texts)
    p.put(f"a.{ending}", text.encode("latin-1"))
    return Case(f"{ending}: {text[:16]!r}", ["discover", f"a.{ending}", "--time=0.1"])


MAKERS: tuple[Maker, ...] = (
    run_with_code, run_with_settings, run_that_reads_elsewhere, run_of_other_things, run_of_pickles,
    checkpoint_of_pickles, run_that_is_not_json, config, config, config_that_is_no_file, law, law,
    law_of_pysr, law_that_is_no_file, table, archive, hdf5, data_elsewhere, picture, video,
)  # fmt: skip


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + " }"
    return json.dumps(value)


# What happens meanwhile --------------------------------------------------------------------------


@dataclass
class Watch:
    """Programs, connections, and files opened or changed, as the interpreter tells of them."""

    folder: Path | None = None
    secret: Path | None = None
    seen: list[str] = field(default_factory=list)

    RUNS = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen", "pty.spawn")
    CHANGES = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink",
               "os.truncate", "os.chmod", "os.chown", "shutil.rmtree")  # fmt: skip

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.folder is None:
            return
        if event in self.RUNS or event in ("socket.connect", "socket.bind", "socket.getaddrinfo"):
            self.seen.append(f"{event} {arguments!r:.100}")
        elif event == "open":
            path, _, flags = arguments
            changes = bool((flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
            self._check(path, event, changes)
        elif event in self.CHANGES:
            self._check(arguments[0], event, True)
        elif event == "pickle.find_class" and arguments[0] in ("os", "posix", "builtins"):
            self.seen.append(f"{event} {arguments!r:.100}")

    def _check(self, path: Any, event: str, changes: bool) -> None:
        if isinstance(path, int) or self.folder is None or self.secret is None:
            return
        place = os.path.realpath(os.fsdecode(path))
        inside = Path(place).is_relative_to(self.folder) or place == os.devnull
        if Path(place).is_relative_to(self.secret) or (changes and not inside):
            self.seen.append(f"{event} {place}")


WATCH = Watch()


def prepare(root: Path) -> tuple[Path, Path]:
    """Good files to spoil, and a neighbor with something to steal."""
    good, secret = root / "good", root / "secret"
    for folder in (good, secret):
        folder.mkdir()
    oscillators(4, 40, mixed=False).to_csv(good / "data.csv", index=False)
    fit = ["fit", "data.csv", "--id=run", "--encoder=identity", "--out=run"]
    done = command(*fit, cwd=good)
    assert done.returncode == 0, done.stderr
    # Whatever is imported or cached at first use is by then.
    command("report", "run", cwd=good)
    command("discover", "data.csv", "--id=run", cwd=good)
    oscillators(3, 30, mixed=False).to_csv(secret / "secret.csv", index=False)
    for name in ("secret.json", "secret.npz", "secret.txt", "secret.safetensors", "secret.png"):
        (secret / name).write_bytes(b"canary")
    site = root / "site" / "pysr"  # as if PySR were installed
    site.mkdir(parents=True)
    (site / "__init__.py").write_text("open('ran', 'w')\n")
    sys.path.insert(0, str(site.parent))
    sys.addaudithook(WATCH)
    return good, secret


@contextmanager
def _bounded(cpu: int, wall: int) -> Iterator[None]:
    def stop(number: int, frame: object) -> None:
        raise TimeoutError(f"more than {cpu} s of work or {wall} s of waiting")

    before = {s: signal.signal(s, stop) for s in (signal.SIGALRM, signal.SIGPROF)}
    signal.setitimer(signal.ITIMER_PROF, cpu)
    signal.alarm(wall)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def attack(root: Path, good: Path, secret: Path, number: int, seed: int) -> tuple[Case, str]:
    """One case; the text says what was wrong, and is empty where it held."""
    rng = random.Random(f"{seed}:{number}")
    folder = root / f"case{number}"
    folder.mkdir()
    case = MAKERS[number % len(MAKERS)](Place(folder, secret, good, rng))
    before = {p: p.stat().st_mtime_ns for p in (secret, *secret.iterdir())}
    WATCH.folder, WATCH.secret, WATCH.seen = folder.resolve(), secret.resolve(), []
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        with _bounded(cpu=30, wall=300):
            out = command(*case.command, cwd=folder)
    except Exception as error:
        return case, f"raised {type(error).__name__}: {error!s:.200}"
    finally:
        WATCH.folder = None
    wrong = list(WATCH.seen)
    refused = out.returncode in (2, 3)
    if not refused and not (case.harmless and out.returncode == 0):
        wrong.append(f"ended with {out.returncode}: {out.stdout[:100]!r} {out.stderr[-200:]!r}")
    lines = [
        line for line in out.stderr.strip("\n").split("\n") if not line.startswith("sjepa: note: ")
    ]
    printable = (out.stdout + out.stderr).replace("\n", "").isprintable()
    if not printable or (refused and (len(lines) != 1 or out.stdout)):
        wrong.append(f"said {out.stderr[:200]!r} {out.stdout[:100]!r}")
    if list(folder.rglob("ran")) or (root / "ran").exists() or Path("ran").exists():
        wrong.append("ran")
    if {p: p.stat().st_mtime_ns for p in (secret, *secret.iterdir())} != before:
        wrong.append("changed its neighbor")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 2**20
    if grown > 1:
        wrong.append(f"took {grown:.1f} GB")
    shutil.rmtree(folder)
    return case, "; ".join(wrong)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("count", type=int, nargs="?", default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    given = parser.parse_args()
    held: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        good, secret = prepare(root)
        for number in range(given.count):
            case, wrong = attack(root, good, secret, number, given.seed)
            held["held" if not wrong else "broke"] += 1
            if wrong:
                print(f"{number} {case.name}: {' '.join(case.command)}: {wrong}", flush=True)
    print(f"seed {given.seed}: {dict(held)}")


if __name__ == "__main__":
    main()
