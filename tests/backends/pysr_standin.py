"""A stand-in for the PySR worker: speaks its protocol and misbehaves as told on the command line.

``python pysr_standin.py MODE [FLAG]``; with a FLAG file it misbehaves only once.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path


# What PySR found for the pendulum (tests/data_files/pysr/pendulum), in its own variables.
ROWS = [
    [[2, 1.32, "0.14391434"], [3, 0.19, "sin(x1)"], [4, 0.0, "x1 + 0.0"]],
    [
        [1, 2.1, "x1"],
        [4, 0.028, "x0 * -0.6436364"],
        [6, 3.8e-16, "-1.6499708e-9 - sin(x0)"],
        [8, 3.8e-16, "(x1 * -2.2585027e-9) - sin(x0)"],
        [9, 9.9, "nosuch(x0)"],
    ],
]


def main(mode: str, flag: str | None = None) -> None:
    if flag is not None:
        if Path(flag).exists():
            mode = "good"
        Path(flag).touch()
    first = json.loads(sys.stdin.readline())

    def send(message: object) -> None:
        text = message if isinstance(message, str) else json.dumps(message)
        say(first["token"])
        print(first["token"], text, flush=True)

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    say(f"pid {os.getpid()}")
    if mode == "dies at import":
        say("ImportError: libjulia.so is missing")
        sys.exit(3)
    if mode == "import error":
        send({"type": "error", "kind": "import", "error": "ModuleNotFoundError", "message": "No x"})
        sys.exit(3)
    if mode == "no julia":
        text = "could not find Julia 1.10.3 - 1.11"
        send({"type": "error", "kind": "julia", "error": "Exception", "message": text})
        sys.exit(3)
    if mode == "slow start":
        time.sleep(60)
    if mode == "rubbish before hello":
        print("a site-customization that likes to talk", flush=True)
    send({"type": "goodbye"} if mode == "no hello" else {"type": "hello", "pysr": "2.7.2"})
    for line in sys.stdin:
        json.loads(line)
        say("\x1b[1mProgress: 5 / 10 total iterations (50.000%)\x1b[0m")
        if mode == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        elif mode == "interrupted":
            sys.exit(130)
        elif mode == "hangs":
            time.sleep(60)
        elif mode == "rubbish":
            print("ERROR: LoadError: something went to the wrong place", flush=True)
            time.sleep(60)
        elif mode == "malformed":
            send('{"type": "result", "outputs": [[')
        elif mode == "wrong form":
            send({"type": "result", "outputs": [[["x0"]]]})
        elif mode == "wrong answer":
            send({"type": "hello"})
        elif mode == "fit error":
            send({"type": "error", "kind": "fit", "error": "juliacall.JuliaError", "message": "no"})
        else:
            send({"type": "result", "outputs": ROWS})


main(*sys.argv[1:])
