"""Named tuples for Griffe: their fields are their parameters, as those of a dataclass are."""

from typing import Any

from griffe import Class, Extension, Function, Parameter, ParameterKind, Parameters


class NamedTuples(Extension):
    """Give every named tuple the constructor Python gives it."""

    def on_class(self, *, cls: Class, **_: Any) -> None:
        """Add the constructor of a named tuple.

        Args:
            cls: A class as it was read.
        """
        if not any(str(base) == "NamedTuple" for base in cls.bases) or "__init__" in cls.members:
            return
        fields = [each for each in cls.members.values() if each.is_attribute and each.annotation is not None]
        kind = ParameterKind.positional_or_keyword
        found = [Parameter(each.name, annotation=each.annotation, kind=kind, default=each.value) for each in fields]
        cls.set_member("__init__", Function("__init__", parameters=Parameters(Parameter("self"), *found)))
