"""The output of an encoder in any common form → mean and scale of each group of latents; ambiguity is an error."""

import ast
import inspect
import itertools
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polarised.adapters.arrays import MEAN, SCALE_NAMES, ScaleKind
from polarised.errors import DataError
from polarised.regime.encodings import as_array

__all__ = ["AmbiguousTupleError", "Posterior", "decoded_by_name", "kind_of_name", "names_returned", "read_output"]

Array = NDArray[Any]

# Affixes of the names of heads: fc_mu, z_log_var, logvar_layer.
AROUND = {"fc", "lin", "linear", "dense", "head", "to", "layer", "proj", "net", "out", "conv", "z", "q", "qz", "enc"}
AROUND |= {"encoder", "posterior", "latent", "x", "h", "outputs", "output", "params", "0"}
# Attributes that hold a posterior, in the outputs of diffusers, scvi-tools and custom models.
HOLDERS = ("latent_dist", "posterior", "qz", "q_z", "q_z_x", "qz_x", "latent_distribution")
GAUSSIAN = {"Normal", "Independent", "MultivariateNormal", "LowRankMultivariateNormal", "MultivariateNormalDiag"}
OTHERS = {"Laplace", "Cauchy", "StudentT", "Gumbel", "VonMises", "VonMisesFisher", "PowerSpherical", "Bernoulli"}
OTHERS |= {"Categorical", "OneHotCategorical", "RelaxedOneHotCategorical", "Beta", "Gamma", "Dirichlet", "LogNormal"}
OTHERS |= {"Uniform", "Poisson", "HypersphericalUniform", "Kumaraswamy", "LogisticNormal", "ContinuousBernoulli"}
OTHERS |= {"MixtureSameFamily", "Exponential"}

_ASK = (
    "give encode= a function that returns (mean, scale) of q(z|x), such as "
    "encode=lambda x: (net(x)[0], net(x)[1]), and give the kind of the scale with scale_kind="
)


@dataclass(frozen=True)
class Posterior:
    """One group of latents: its mean, its scale, the kind of the scale if known, and the prior if it was returned.

    `told_by` is the source of the kind: a name, a distribution, or the user.
    """

    mean: Array
    scale: Array
    kind: ScaleKind | None = None
    told_by: str = ""
    prior_mean: Array | None = None
    prior_scale: Array | None = None
    prior_kind: ScaleKind | None = None
    name: str = ""


def read_output(output: Any, *, names: Sequence[str | None] | None = None) -> list[Posterior]:
    """Return the groups of latents in the output of an encoder for a batch.

    Args:
        output: A pair of arrays, a distribution, a mapping or an object with named arrays, or a sequence of those.
        names: The names of the parts of a tuple in the source of the encoder, if known.

    Returns:
        A posterior for each group of latents; most models have one group.

    Raises:
        DataError: If it is none of the known forms, or is ambiguous.

    >>> found = read_output({"mu": [[0.0, 1.0]], "log_var": [[-1.0, 0.0]], "z": [[0.3, 0.9]]})
    >>> len(found), found[0].kind
    (1, 'log_variance')
    """
    held = _held(output)
    if held is not None:
        return [held]
    if isinstance(output, Mapping):
        return _of_mapping(output)
    if isinstance(output, tuple | list) and not _is_table(output):
        if hasattr(output, "_fields"):
            return _of_mapping(dict(zip(output._fields, output, strict=True)))
        return _of_sequence(list(output), names)
    if _is_array(output):
        shape = as_array(output).shape
        raise DataError(
            f"the encoder returned one array of shape {shape}, which could be the mean alone, mean and scale in two "
            f"halves, or interleaved; {_ASK.replace('(net(x)[0], net(x)[1])', 'net(x).chunk(2, dim=1)')}"
        )
    named = _attributes(output)
    if named:
        return _of_mapping(named)
    raise DataError(
        f"expected the encoder to return a pair, a distribution or named arrays, got {type(output).__name__}; {_ASK}"
    )


def decoded_by_name(output: Any) -> Any:
    """Return the array in the output of a decoder: by its name, the mean of a distribution, or the first of a tuple.

    Raises:
        DataError: If there is none.

    >>> decoded_by_name({"reconstruction": np.zeros(2), "loss": 0.0})
    array([0., 0.])
    """
    if _is_array(output):
        return output
    if isinstance(output, tuple | list) and output:
        return decoded_by_name(output[0])
    for name in ("reconstruction", "recon", "recon_x", "x_hat", "x_recon", "sample", "logits", "mean", "loc"):
        found = output.get(name) if isinstance(output, Mapping) else _number(output, name)
        if found is not None and _is_array(found):
            return found
    raise DataError(f"expected the decoder to return an array, got {type(output).__name__}; wrap it with decode=")


def kind_of_name(name: str | None) -> ScaleKind | None:
    """Return the kind of a scale by its name, or None if the name does not give it.

    >>> kind_of_name("fc_logvar"), kind_of_name("z_log_std"), kind_of_name("sigma")
    ('log_variance', 'log_std', None)
    """
    bare = _bare(name)
    return next((kind for kind, known in SCALE_NAMES.items() if bare in known), None)


def names_returned(encode: Callable[..., Any]) -> list[str | None] | None:
    """Return the names of the parts of the tuple that a function returns, read from its source without running it.

    None if there is no source, or it returns anything other than one form of tuple.

    >>> import functools
    >>> names_returned(functools.partial(kind_of_name))
    """
    while isinstance(encode, partial):
        encode = encode.func
    if not inspect.isroutine(encode):
        # A callable object: torch, Keras and Flax each have their own name for the method that is called.
        own = (getattr(type(encode), name, None) for name in ("forward", "call", "__call__"))
        encode = next((method for method in own if inspect.isfunction(method)), encode)
    function = inspect.unwrap(getattr(encode, "__func__", encode))
    if not inspect.isfunction(function):
        return None
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    if function.__name__ == "<lambda>":
        lambdas = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda)]
        returned = [lambdas[0].body] if len(lambdas) == 1 else []
    else:
        returned = [node.value for node in _own_nodes(tree.body[0]) if isinstance(node, ast.Return) and node.value]
    found = {tuple(_identifier(part) for part in node.elts) for node in returned if isinstance(node, ast.Tuple)}
    if len(found) != 1 or not all(isinstance(node, ast.Tuple) for node in returned):
        return None
    return list(found.pop())


def _own_nodes(function: ast.AST) -> list[ast.AST]:
    """Return the nodes of a function's body without those of nested functions."""
    found, waiting = [], list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            found.append(node)
            waiting += ast.iter_child_nodes(node)
    return found


def _identifier(node: ast.AST) -> str | None:
    """Return the name of a variable or of the called layer; None for any other expression."""
    if isinstance(node, ast.Call):
        name = _identifier(node.func)
        return name if kind_of_name(name) or _bare(name) in MEAN else None
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None


def _bare(name: str | None) -> str:
    tokens = [token for token in (name or "").lower().strip("_").split("_") if token]
    whole = "_".join(tokens)
    known = {word for words in SCALE_NAMES.values() for word in words} | set(MEAN)
    while tokens and "_".join(tokens) not in known and (tokens[0] in AROUND or tokens[-1] in AROUND):
        tokens = tokens[1:] if tokens[0] in AROUND else tokens[:-1]
    return "_".join(tokens) or whole


def _held(output: Any) -> Posterior | None:
    """Return the posterior of a distribution, or of an object with a distribution."""
    if isinstance(output, tuple | list | np.ndarray) or _is_array(output):
        return None
    for holder in HOLDERS:
        inner = output.get(holder) if isinstance(output, Mapping) else getattr(output, holder, None)
        if inner is not None and not isinstance(inner, Mapping) and _distribution(inner):
            return _of_distribution(inner)
    return None if isinstance(output, Mapping) or not _distribution(output) else _of_distribution(output)


def _distribution(value: Any) -> bool:
    kinds = {each.__name__ for each in type(value).__mro__}
    if kinds & OTHERS or kinds & GAUSSIAN:
        return True
    if _is_array(value) or isinstance(value, Mapping | tuple | list | str):
        return False
    has_location = any(_number(value, name) is not None for name in ("loc", "mean"))
    return has_location and any(_number(value, name) is not None for name in ("scale", "stddev", "variance", "var"))


def _of_distribution(value: Any) -> Posterior:
    other = next((each.__name__ for each in type(value).__mro__ if each.__name__ in OTHERS), None)
    if other is not None:
        raise DataError(
            f"expected a Gaussian posterior, got {other}; types are defined for Gaussian posteriors, where the "
            "variance is compared with the prior's"
        )
    covariance = getattr(value, "covariance_matrix", None)
    if covariance is not None:
        matrix = as_array(covariance)
        if np.abs(matrix * (1 - np.eye(matrix.shape[-1]))).max(initial=0) > 1e-6 * np.abs(matrix).max(initial=1e-30):
            raise DataError(
                "expected a posterior whose variables are independent given x, got a full covariance matrix; "
                "give an encode= that returns its mean and its diagonal (scale_kind='variance')"
            )
    mean = next(found for name in ("loc", "mean") if (found := _number(value, name)) is not None)
    words: tuple[tuple[str, ScaleKind], ...] = (
        ("logvar", "log_variance"),
        ("variance", "variance"),
        ("var", "variance"),
        ("stddev", "std"),
        ("scale", "std"),
    )
    for name, kind in words:
        scale = _number(value, name)
        if scale is not None and scale.shape == mean.shape:
            return Posterior(mean, scale, kind, f"{name} of {type(value).__name__}")
    raise DataError(f"expected a variance for every mean, but {type(value).__name__} has none of shape {mean.shape}")


def _number(value: Any, name: str) -> Array | None:
    """Return an attribute, or the result of a method without arguments of that name, if it is an array."""
    try:
        found = getattr(value, name, None)
        found = found() if callable(found) and not _is_array(found) else found
    except (NotImplementedError, TypeError, AttributeError):
        return None
    if found is None or isinstance(found, str) or not _is_array(found):
        return None
    return as_array(found)


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _is_table(value: Any) -> bool:
    """Return whether nested lists are the numbers of one table and not several tables."""
    depth = 0
    while isinstance(value, tuple | list) and value:
        value, depth = value[0], depth + 1
    return isinstance(value, int | float) and depth <= 2


def _arraylike(value: Any) -> bool:
    return _is_array(value) or (isinstance(value, tuple | list) and len(value) > 0 and _is_table(value))


def _of_mapping(named: Mapping[str, Any]) -> list[Posterior]:
    arrays = {str(name): value for name, value in named.items() if _arraylike(value)}
    bare = {_bare(name): name for name in arrays if not str(name).lower().startswith("prior")}
    mean = next((bare[name] for name in MEAN if name in bare), None)
    scales = [(kind, bare[name]) for kind, known in SCALE_NAMES.items() for name in known if name in bare]
    if mean is not None and scales:
        kind, scale = scales[0]
        found = Posterior(*_alike(arrays[mean], arrays[scale]), kind, f"the name {scale}")
        return [_with_prior(found, arrays)]
    if mean is not None and "sigma" in bare:
        return [_with_prior(Posterior(*_alike(arrays[mean], arrays[bare["sigma"]])), arrays)]
    groups = []
    for name, value in named.items():
        if not _arraylike(value) and isinstance(value, tuple | list | Mapping) | _distribution(value):
            try:
                groups += [replace(group, name=str(name)) for group in read_output(value)]
            except DataError:
                continue
    if groups:
        return groups
    listed = ", ".join(map(str, named)) or "nothing"
    raise DataError(
        f"expected an encoder's output with a mean (mean, mu, loc ...) and a scale (logvar, variance, std ...), but it "
        f"has {listed}; {_ASK}"
    )


def _with_prior(found: Posterior, arrays: Mapping[str, Any]) -> Posterior:
    priors = {_bare(name.lower().removeprefix("prior_")): name for name in arrays if name.lower().startswith("prior_")}
    mean = next((priors[name] for name in MEAN if name in priors), None)
    scales = [(kind, priors[name]) for kind, known in SCALE_NAMES.items() for name in known if name in priors]
    return replace(
        found,
        prior_mean=None if mean is None else as_array(arrays[mean]),
        prior_scale=as_array(arrays[scales[0][1]]) if scales else None,
        prior_kind=scales[0][0] if scales else None,
    )


def _attributes(value: Any) -> dict[str, Any]:
    try:
        return {name: part for name, part in vars(value).items() if not name.startswith("_")}
    except TypeError:
        return {}


def _of_sequence(parts: list[Any], names: Sequence[str | None] | None) -> list[Posterior]:
    if len(parts) == 1:
        return read_output(parts[0])
    distributions = [part for part in parts if not _arraylike(part) and not isinstance(part, tuple | list | Mapping)]
    distributions = [part for part in distributions if _distribution(part)]
    if len(distributions) == 1:
        return [_of_distribution(distributions[0])]
    if all(_arraylike(part) for part in parts):
        return [_of_arrays(parts, names)]
    if all(isinstance(part, tuple | list | Mapping) or _distribution(part) for part in parts):
        return _of_groups(parts)
    inner = [part for part in parts if isinstance(part, tuple | list | Mapping)]
    if len(inner) == 1:
        return read_output(inner[0])
    kinds = ", ".join(type(part).__name__ for part in parts)
    raise DataError(f"the encoder returned {len(parts)} values ({kinds}) of unknown meaning; {_ASK}")


def _of_arrays(parts: list[Any], names: Sequence[str | None] | None) -> Posterior:
    if names is not None and len(names) == len(parts):
        means = [i for i, name in enumerate(names) if _bare(name) in MEAN]
        scales = [i for i, name in enumerate(names) if kind_of_name(name) or _bare(name) == "sigma"]
        if len(scales) == 1 and len(means) == 1:
            kind = kind_of_name(names[scales[0]])
            source = f"the name {names[scales[0]]}" if kind else ""
            return Posterior(*_alike(parts[means[0]], parts[scales[0]]), kind, source)
        if len(parts) == 2 and scales == [1]:
            kind = kind_of_name(names[1])
            return Posterior(*_alike(*parts), kind, f"the name {names[1]}" if kind else "")
    if len(parts) == 2:
        return Posterior(*_alike(*parts))
    shapes = ", ".join(str(as_array(part).shape) for part in parts)
    raise AmbiguousTupleError(
        f"the encoder returned {len(parts)} arrays of shapes {shapes}, and it is not clear which are mean and scale; "
        f"{_ASK}"
    )


class AmbiguousTupleError(DataError):
    """A tuple with more than two arrays; a second call of the encoder may show which of them are samples."""


def _of_groups(parts: list[Any]) -> list[Posterior]:
    """Return the groups of ``[(m1, s1), (m2, s2), ...]`` or of ``([m1, m2, ...], [s1, s2, ...])``; refuse ambiguity."""
    by_pairs = _groups(parts)
    by_kind = None
    if len(parts) == 2 and all(isinstance(part, tuple | list) for part in parts) and len(parts[0]) == len(parts[1]):
        by_kind = _groups(list(zip(*parts, strict=True)))
    if by_pairs and by_kind and len(parts[0]) == 2:
        raise DataError(
            "the encoder returned two pairs of arrays of one shape, which could be [(mean, scale), (mean, scale)] of "
            "two groups or ([mean, mean], [scale, scale]); give encode= a function that returns a dictionary with a "
            'pair for each group, such as {"first": (mean, scale), "second": (mean, scale)}'
        )
    found = by_pairs or by_kind
    if not found:
        raise DataError(
            f"the encoder returned {len(parts)} groups, and it is not clear which arrays are mean and scale; {_ASK}"
        )
    return [replace(group, name=group.name or f"group {i}") for i, group in enumerate(found)]


def _groups(parts: Sequence[Any]) -> list[Posterior] | None:
    try:
        found = list(itertools.chain.from_iterable(read_output(part) for part in parts))
    except DataError:
        return None
    return found if len(found) == len(parts) else None


def _alike(mean: Any, scale: Any) -> tuple[Array, Array]:
    first, second = as_array(mean), as_array(scale)
    if first.shape != second.shape:
        raise DataError(
            f"expected mean and scale to have the same shape, got {first.shape} and {second.shape}; "
            "broadcast a variance that is shared by all variables"
        )
    return first, second
