"""scikit-learn's own checks, with errors that are ours as well as what scikit-learn promises."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import validation

from sjepa.errors import DataError, SjepaError
from sjepa.settings import array_of


class NotFitted(SjepaError, NotFittedError):
    """The estimator has not been fitted yet."""


class WrongType(SjepaError, TypeError):
    """Data of a kind that is not read, such as a sparse matrix."""


T = TypeVar("T")


def _unmasked(value: Any) -> Any:
    """Masked values are missing: scikit-learn reads what is under the mask."""
    return array_of(value, "data") if isinstance(value, np.ma.MaskedArray) else value


def _ours(check: Callable[..., T]) -> Callable[..., T]:
    @wraps(check)
    def checked(*args: Any, **options: Any) -> T:
        try:
            return check(*map(_unmasked, args), **options)
        except NotFittedError as error:
            raise NotFitted(str(error)) from None
        except (TypeError, OverflowError) as error:
            raise WrongType(str(error)) from None
        except ValueError as error:
            raise DataError(str(error)) from None

    return checked


check_is_fitted = _ours(validation.check_is_fitted)
check_X_y = _ours(validation.check_X_y)
check_sample_weight = _ours(validation._check_sample_weight)
r2_score = _ours(RegressorMixin.score)
validate_data = _ours(validation.validate_data)
