"""Commands as the typer of Debian 12 understands them: 0.7 knows neither `Annotated` nor `X | None`."""

import copy
import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

import typer

KNOWS_ANNOTATED = tuple(int(part) for part in typer.__version__.split(".")[:2]) >= (0, 9)


class Typer(typer.Typer):
    """typer's own, whose commands may be written in today's way."""

    def command(self, *words: Any, **options: Any) -> Callable:
        register = super().command(*words, **options)
        return register if KNOWS_ANNOTATED else lambda function: register(plain(function))


def plain(function: Callable) -> Callable:
    """The same function, its options as defaults and its types as 0.7 reads them."""
    hints = typing.get_type_hints(function, include_extras=True)
    parameters = []
    for parameter in inspect.signature(function).parameters.values():
        hint, default = hints.get(parameter.name, str), parameter.default
        if typing.get_origin(hint) is typing.Annotated:
            hint, described = hint.__origin__, copy.copy(hint.__metadata__[0])
            if isinstance(described.default, str):  # the first name of an option stood where 0.7 looks for its default
                described.param_decls = (described.default, *(described.param_decls or ()))
            described.default = ... if default is inspect.Parameter.empty else default
            default = described
        parameters.append(parameter.replace(annotation=of_old(hint), default=default))

    @functools.wraps(function)
    def called(**given: Any) -> Any:
        return function(**given)

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {p.name: p.annotation for p in parameters}
    del called.__wrapped__
    return called


def of_old(hint: Any) -> Any:
    """`X | None` as Optional[X]."""
    return typing.Union[typing.get_args(hint)] if isinstance(hint, types.UnionType) else hint
