"""Responses: how the second rates of outputs depend on the inputs, y'' = b + D u, under all constraints of a domain."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import casadi as ca

from saltus.dynamics.formulations import ODE
from saltus.errors import BadValue
from saltus.model.symbols import SX

if TYPE_CHECKING:
    from saltus.hybrid.mode import Program


class Responses:
    """Accelerations of a program with motors that deliver whatever they are asked for."""

    def __init__(self, program: Program) -> None:
        self.program = program

    @cached_property
    def _ode(self) -> ODE:
        """The program's own equations if no motor has limits, or their like without."""
        program, e = self.program, self.program.equations
        if ca.is_equal(e.torques, e.u, 1):
            return program.ode
        return program.formulation.ode(program.unlimited(), program.choice)

    def __call__(self, output: Any) -> tuple[SX, SX, SX]:
        """y', b and D of an output y(q, t)."""
        program, ode = self.program, self._ode
        e = ode.equations
        y = ca.densify(SX(output))
        if any(ca.depends_on(y, x) for x in (e.v, program.ode.w, e.u, e.z) if x.numel()):
            raise BadValue(
                "an output depends on velocities or inputs; feedback linearisation takes functions of positions"
            )
        rate = e.kinematics.rate(y)
        second = e.kinematics.second_rate(rate)
        inserted = ca.Function("inserted", [e.t, e.q, e.v, e.a, e.p], [ca.densify(rate), ca.densify(second)])
        v, a = ode.v, ode.a
        if ode is not program.ode and ode.w.numel():  # symbols of its own for the same independent velocities
            v, a = ca.substitute([v, a], [ode.w], [program.ode.w])
        rate, second = inserted(e.t, e.q, ca.densify(v), ca.densify(a), e.p)
        second = program.with_normals([second], ode)[0]
        rate, second = program.stage.with_domain_params([rate, second])
        D = ca.jacobian(second, e.u)
        if ca.depends_on(D, e.u):
            raise BadValue(
                "an input enters the forces of the machine other than in proportion; the output cannot be made linear"
            )
        return rate, ca.substitute(second, e.u, SX.zeros(e.u.numel())), D
