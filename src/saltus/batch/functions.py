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

    def call(actions: Any, theta: Any = None) -> Any:
        given = torch.zeros(0, dtype=torch.float64) if theta is None else theta
        return Roll.apply(actions.double(), given.double())

    return call


def jax_rollout(
    machine: Mechanism, starts: State | Sequence[State], *, params: Sequence[str] = (), **options: Any
) -> Callable[..., Any]:
    """The same function of JAX arrays, with a custom VJP: it may be jitted; 64 bits are needed (jax_enable_x64)."""
    try:
        import jax
        import jax.numpy as jnp
    except ImportError as problem:
        raise SaltusError("jax_rollout needs JAX: pip install jax") from problem
    rolled = _Rolled(machine, starts, params, options)
    nq, nv = len(machine.q_names), len(machine.v_names)

    def run(actions: Any, theta: Any) -> Any:
        final = rolled.forward(np.asarray(actions, float), np.asarray(theta, float)).final
        return final.q, final.v

    def turn(actions: Any, theta: Any, q: Any, v: Any) -> Any:
        tape = rolled.forward(np.asarray(actions, float), np.asarray(theta, float))
        return rolled.backward(tape, np.asarray(q, float), np.asarray(v, float), np.shape(theta))

    @jax.custom_vjp
    def roll(actions: Any, theta: Any) -> Any:
        n, kind = actions.shape[0], jnp.float64
        shapes = jax.ShapeDtypeStruct((n, nq), kind), jax.ShapeDtypeStruct((n, nv), kind)
        return jax.pure_callback(run, shapes, actions, theta)

    def forward(actions: Any, theta: Any) -> Any:
        return roll(actions, theta), (actions, theta)

    def backward(kept: Any, seeds: Any) -> Any:
        shapes = tuple(jax.ShapeDtypeStruct(x.shape, jnp.float64) for x in kept)
        return jax.pure_callback(turn, shapes, *kept, *seeds)

    roll.defvjp(forward, backward)

    def call(actions: Any, theta: Any = None) -> Any:
        if not jax.config.read("jax_enable_x64"):
            raise BadValue("jax computes in 32 bits; call jax.config.update('jax_enable_x64', True) first")
        given = jnp.zeros(0) if theta is None else theta
        return roll(jnp.asarray(actions, jnp.float64), jnp.asarray(given, jnp.float64))

    return call
