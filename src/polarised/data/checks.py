"""Settings checked where a dataset is called from Python, as a config's are before."""

from collections.abc import Sequence

from polarised.catalogue import nearest
from polarised.errors import ConfigError

__all__ = ["check_choice", "check_counts"]


def check_choice(setting: str, value: object, choices: Sequence[object]) -> None:
    """Refuse a value that is not among the choices.

    >>> check_choice("split", "trian", ("train", "test"))
    Traceback (most recent call last):
    polarised.errors.ConfigError: expected split as one of 'train', 'test', got 'trian' (did you mean 'train'?)
    """
    if value not in choices:
        offered = ", ".join(map(repr, choices))
        hint = nearest(str(value), [str(choice) for choice in choices])
        raise ConfigError(f"expected {setting} as one of {offered}, got {value!r}{hint}")


def check_counts(**counts: int) -> None:
    """Refuse a number of things below 1.

    >>> check_counts(arms=0)
    Traceback (most recent call last):
    polarised.errors.ConfigError: expected arms of 1 or more, got 0
    """
    for name, count in counts.items():
        if count < 1:
            raise ConfigError(f"expected {name} of 1 or more, got {count}")
