"""Rollouts as functions of PyTorch and JAX: both differentiate through them by the tape of `sl.rollout`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from saltus.batch.rollout import Tape, rollout
from saltus.errors import BadValue, SaltusError
from saltus.model.assembly import State
from saltus.model.mechanism import Mechanism


class _Rolled:
    """(actions, Params) -> (q, v) in NumPy, and products of seeds with its derivatives."""

    def __init__(
        self, machine: Mechanism, starts: State | Sequence[State], params: Sequence[str], options: Any
    ) -> None:
        unknown = [name for name in params if name not in machine.params]
        if unknown:
            raise BadValue(f"{machine.name!r} has no Params {', '.join(unknown)}", given=list(params))
        self.machine, self.starts, self.names, self.options = machine, starts, list(params), options
        self.places = [list(machine.params).index(name) for name in params]

    def forward(self, actions: np.ndarray, theta: np.ndarray) -> Tape:
        """Run; `theta` are values of the named Params, one row per copy."""
        n = len(actions)
        rows = np.broadcast_to(theta, (n, len(self.names)))
        given = {name: rows[:, i] for i, name in enumerate(self.names)}
        options = dict(self.options)
        options["params"] = {**options.get("params", {}), **given}
        tape: Tape = rollout(self.machine, self.starts, actions, gradient=True, **options)[1]
        return tape

    def backward(
        self, tape: Tape, q: np.ndarray, v: np.ndarray, shape: tuple[int, ...]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives by actions and by the named Params, in the shape that these came in."""
        g = tape.gradient(q, v)
        by_params = g.params[:, self.places]
        return g.actions, by_params if len(shape) == 2 else by_params.sum(axis=0)

    def along(self, tape: Tape, actions: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How (q, v) change along a direction of the actions and of the named Params."""
        params = np.zeros((len(actions), len(self.machine.params)))
        params[:, self.places] = theta
        found = tape.change(actions=actions, params=params)
        return found.q, found.v


def torch_rollout(
    machine: Mechanism, starts: State | Sequence[State], *, params: Sequence[str] = (), **options: Any
) -> Callable[..., Any]:
    """A function (actions, values of `params`) -> (q, v) of double tensors that PyTorch differentiates.

    Actions are (copies, actions, numbers), values one row for all copies or one per copy; options as in `sl.rollout`.
    """
    try:
        import torch
    except ImportError as problem:
        raise SaltusError("torch_rollout needs PyTorch: pip install 'saltus[learn]'") from problem
    rolled = _Rolled(machine, starts, params, options)

    class Roll(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, actions: Any, theta: Any) -> Any:
            ctx.tape = rolled.forward(actions.detach().numpy(), theta.detach().numpy())
            ctx.shape = tuple(theta.shape)
            return torch.from_numpy(ctx.tape.final.q), torch.from_numpy(ctx.tape.final.v)

        @staticmethod
        def backward(ctx: Any, q: Any, v: Any) -> Any:
            found = rolled.backward(ctx.tape, q.numpy(), v.numpy(), ctx.shape)
            return tuple(torch.from_numpy(np.ascontiguousarray(x)) for x in found)

        @staticmethod
        def jvp(ctx: Any, actions: Any, theta: Any) -> Any:
            given = ctx.tape.shape
            found = rolled.along(
                ctx.tape,
                np.zeros(given) if actions is None else actions.numpy(),
                np.zeros(ctx.shape) if theta is None else theta.numpy(),
            )
            return tuple(torch.from_numpy(np.ascontiguousarray(x)) for x in found)

    def call(actions: Any, theta: Any = None) -> Any:
        given = torch.zeros(0, dtype=torch.float64) if theta is None else theta
        return Roll.apply(actions.double(), given.double())

    return call


def jax_rollout(
    machine: Mechanism, starts: State | Sequence[State], *, params: Sequence[str] = (), **options: Any
) -> Callable[..., Any]:
    """The same function of JAX arrays, for jax.jvp and jax.grad; it may be jitted, not vmapped, with jax_enable_x64."""
    try:
        import jax
        import jax.numpy as jnp
    except ImportError as problem:
        raise SaltusError("jax_rollout needs JAX: pip install 'saltus[jax]'") from problem
    rolled = _Rolled(machine, starts, params, options)
    nq, nv = len(machine.q_names), len(machine.v_names)

    def tape(actions: Any, theta: Any) -> Tape:
        return rolled.forward(np.asarray(actions, float), np.asarray(theta, float))

    def run(actions: Any, theta: Any) -> Any:
        final = tape(actions, theta).final
        return final.q, final.v

    def turn(actions: Any, theta: Any, q: Any, v: Any) -> Any:
        return rolled.backward(tape(actions, theta), np.asarray(q, float), np.asarray(v, float), np.shape(theta))

    def push(actions: Any, theta: Any, *given: Any) -> Any:
        return rolled.along(tape(actions, theta), *(np.asarray(x, float) for x in given))

    def ends(actions: Any) -> Any:
        return tuple(jax.ShapeDtypeStruct((actions.shape[0], size), jnp.float64) for size in (nq, nv))

    def called(function: Any, shapes: Any, *given: Any) -> Any:
        return jax.pure_callback(function, shapes, *given)

    @jax.custom_jvp
    def roll(actions: Any, theta: Any) -> Any:
        return called(run, ends(actions), actions, theta)

    def by(k: int, at: Any, given: Any) -> Any:
        """Change along a direction of one argument; linear in it, so that its transpose goes back."""

        def forth(at: Any, given: Any) -> Any:
            return called(push, ends(at[0]), *at, *(given if i == k else jnp.zeros_like(x) for i, x in enumerate(at)))

        def back(at: Any, seeds: Any) -> Any:
            return called(turn, tuple(jax.ShapeDtypeStruct(x.shape, jnp.float64) for x in at), *at, *seeds)[k]

        return jax.custom_derivatives.linear_call(forth, back, at, given)

    def along(at: Any, given: Any) -> Any:
        zero = jax.custom_derivatives.SymbolicZero
        moves = [by(k, at, x) for k, x in enumerate(given) if not isinstance(x, zero)]
        return roll(*at), tuple(sum(parts) for parts in zip(*moves, strict=True))

    roll.defjvp(along, symbolic_zeros=True)

    def call(actions: Any, theta: Any = None) -> Any:
        if not jax.config.read("jax_enable_x64"):
            raise BadValue("jax computes in 32 bits; call jax.config.update('jax_enable_x64', True) first")
        given = jnp.zeros(0) if theta is None else theta
        return roll(jnp.asarray(actions, jnp.float64), jnp.asarray(given, jnp.float64))

    return call
