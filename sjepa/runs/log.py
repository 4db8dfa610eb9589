"""The log of a run: every line of the package's loggers, while the run is at work."""

from __future__ import annotations

import logging
from io import TextIOWrapper
from pathlib import Path
from typing import Self

from sjepa.storage import open_kept


logger = logging.getLogger("sjepa")


class RunLog(logging.FileHandler):
    """Appends to ``log.txt``. A full disk ends the run by itself; no line of the log need say so.

    Other handlers get what they would have got without it.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, encoding="utf-8")
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        self._others: list[logging.Handler] = []
        self._level = self._heard = logging.NOTSET

    def _open(self) -> TextIOWrapper:
        """A link there would lead the lines into a file elsewhere: it is refused."""
        return TextIOWrapper(open_kept(Path(self.baseFilename)), encoding="utf-8")

    def handleError(self, record: logging.LogRecord) -> None:
        """Nothing can be said where nothing can be written."""

    def _was_heard(self, record: logging.LogRecord) -> bool:
        return record.levelno >= self._heard or not record.name.startswith("sjepa")

    def __enter__(self) -> Self:
        self._level, self._heard = logger.level, logger.getEffectiveLevel()
        self._others = [*logger.handlers, *logging.getLogger().handlers]
        for other in self._others:
            other.addFilter(self._was_heard)
        logger.setLevel(logging.DEBUG)
        logger.addHandler(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            logger.info("stopped")
        elif kind is not None:
            logger.error("%s: %s", kind.__name__, error)
        logger.removeHandler(self)
        logger.setLevel(self._level)
        for other in self._others:
            other.removeFilter(self._was_heard)
        try:
            self.close()
        except OSError:
            pass
