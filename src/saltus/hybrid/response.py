"""Responses: how the second rates of outputs depend on the inputs, y'' = b + D u, under all constraints of a domain."""

from __future__ import annotations

from typing import Any

import casadi as ca

from saltus.dynamics.choice import Choice
from saltus.dynamics.formulations import ODE, Index1
from saltus.errors import BadValue
from saltus.hybrid.constrained import Constrained
from saltus.model.symbols import SX
from saltus.once import cached_property


class Responses:
    """Accelerations under the constraints of a domain, with motors that deliver whatever they are asked for."""

    def __init__(self, constrained: Constrained, choice: Choice) -> None:
        self.constrained, self.choice = constrained, choice

    @cached_property
    def _ode(self) -> ODE:
        return Index1().ode(self.constrained.moved(unlimited=True), self.choice)

    def __call__(self, output: Any) -> tuple[SX, SX, SX]:
        """y', b and D of an output y(q, t)."""
        ode = self._ode
        e = ode.equations
        y = ca.densify(SX(output))
        if any(ca.depends_on(y, x) for x in (e.v, e.u, e.z) if x.numel()):
            raise BadValue(
                "an output depends on velocities or inputs; feedback linearisation takes functions of positions"
            )
        rate = e.kinematics.rate(y)
        second = ca.substitute(e.kinematics.second_rate(rate), e.a, ca.densify(ode.a))
        (second,) = self.constrained.with_normals([ca.densify(second)], ode)
        D = ca.jacobian(second, e.u)
        if ca.depends_on(D, e.u):
            raise BadValue(
                "an input enters the forces of the machine other than in proportion; the output cannot be made linear"
            )
        return rate, ca.substitute(second, e.u, SX.zeros(e.u.numel())), D
