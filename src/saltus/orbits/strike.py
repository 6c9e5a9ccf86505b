"""Derivative of an instant at which contacts with modes of their own strike: who sticks, slips and bounces is kept.

Velocities v+ after it, impulses r of the loops and p of the contacts solve

    M (v+ - v) = L' r + A' p,    L v+ + phi_t = 0,    of every contact that takes part
    normal: u_n+ = -e u_n,    stick: u_t+ = 0,    slip: p_t = -friction p_n u_t+ / |u_t+|,

and impulses of all others are zero; the implicit function theorem gives how v+ moves with (t, q, v, Params).
"""

from __future__ import annotations

import casadi as ca
import numpy as np

from saltus.compile import Kernel
from saltus.hybrid.constrained import rare
from saltus.hybrid.touched import Touched
from saltus.model.symbols import SX
from saltus.simulation.contacts import Contacts
from saltus.simulation.instant import Settled

STILL = 1e-7  # of the largest velocity: a contact that comes out of an impact so slowly sticks
NOTHING = 1e-9  # of the largest impulse


class Strike:
    """The equations of an instant, made once per machine and ground."""

    def __init__(self, c: Touched) -> None:
        self.c, e = c, c.tree
        self.loops, self.rows = int(e.phi.numel()), sum(x.rows for x in c.elements)
        after, pull, p = SX.sym("after", e.nv), SX.sym("pull", self.loops), SX.sym("p", self.rows)
        active, stick, bounce, ways = (SX.sym(n, self.rows) for n in ("active", "stick", "bounce", "ways"))
        rates = ca.vertcat(SX(0, 1), *[g.rates for g in c.geometry])
        out = ca.substitute(rates, e.v, after)
        momentum = e.times_mass(after - e.v) - ca.jtimes(rates, e.v, p, True)
        if self.loops:
            momentum -= ca.jtimes(e.phi_dot, e.v, pull, True)
        laws, at = [], 0
        for x in c.elements:
            n = at + x.slips
            for i in range(at, at + x.slips):
                way = ways[i] if x.slips == 1 else out[i] / ca.sqrt(ca.sumsqr(out[at : at + x.slips]) + 1e-300)
                slip = p[i] + (x.symbols["friction"] * p[n] * way if x.normal else 0)
                laws.append(ca.if_else(stick[i] > 0.5, out[i], ca.if_else(active[i] > 0.5, slip, p[i])))
            if x.normal:
                laws.append(ca.if_else(active[n] > 0.5, out[n] + bounce[n] * rates[n], p[n]))
            at += x.rows
        loops = ca.substitute(e.phi_dot, e.v, after)
        residual = ca.densify(ca.vertcat(momentum, loops, *laws))
        before = ca.vertcat(e.t, e.q, e.v, c.mechanism.p, c.anchors)
        outputs = [ca.jacobian(residual, ca.vertcat(after, pull, p)), ca.jacobian(residual, before)]
        inputs = [e.t, e.q, e.v, ca.vertcat(c.mechanism.p, c.anchors), after, pull, p, active, stick, bounce, ways]
        self._kernel: Kernel = rare("strike", inputs, c.with_params([ca.densify(x) for x in outputs]))

    def slope(
        self, t: float, q: np.ndarray, v: np.ndarray, contacts: Contacts, by_params: np.ndarray, out: Settled
    ) -> np.ndarray:
        """Derivative of (q, v) after with respect to (t, q, v, Params) before; `by_params` is that of the block."""
        nq, nv, n_p = len(q), len(v), len(contacts.params)
        n = 1 + nq + nv + n_p
        whole = np.eye(n)[1 : 1 + nq + nv]
        if out.impact is None:
            return whole
        p, active, stick, bounce, ways = (np.zeros(self.rows) for _ in range(5))
        u, after = (np.ravel(self.c.meeting(t, q, x, contacts.base)[1]) for x in (v, out.v))
        given, largest = iter(out.impact.impulses), float(np.abs(out.impact.impulses).max(initial=0.0))
        speed = STILL * max(1.0, float(np.abs(v).max(initial=0.0)))
        for i in out.touched:
            rough = contacts.now[i].friction > 0
            along, across = contacts.tangential(i), contacts.normal(i)
            if rough:
                p[along] = [next(given) for _ in along]
            p[across] = next(given)
            if p[across] <= NOTHING * largest:
                continue
            active[across] = 1.0
            bounce[across] = -after[across] / u[across] if u[across] < -speed else 0.0
            size = float(np.linalg.norm(after[along]))
            if rough and along:
                active[along] = 1.0
                stick[along] = float(size <= speed)
                ways[along] = after[along] / size if size > speed else 0.0
        loads = self._loads(t, q, v, contacts, out.v, p)
        J_z, J_y = self._kernel(t, q, v, contacts.base, out.v, loads, p, active, stick, bounce, ways)
        size_z = nv + self.loops + self.rows
        J_z, J_y = np.reshape(J_z, (size_z, size_z)), np.reshape(J_y, (size_z, -1))
        right = J_y[:, :n].copy()
        right[:, 1 + nq + nv :] += J_y[:, n:] @ by_params
        scale = np.linalg.norm(J_z, axis=1, keepdims=True) + 1e-300
        whole[nq:] = -np.linalg.lstsq(J_z / scale, right / scale, rcond=1e-12)[0][:nv]
        return whole

    def _loads(
        self, t: float, q: np.ndarray, v: np.ndarray, contacts: Contacts, after: np.ndarray, p: np.ndarray
    ) -> np.ndarray:
        """Impulses of the loops: what is left of the momentum."""
        if not self.loops:
            return np.zeros(0)
        c, base = self.c, contacts.base
        A = np.reshape(c.meeting(t, q, v, base)[2], (self.rows, len(v)))
        left = c.mass(t, q, base) @ (after - v) - A.T @ p
        return np.linalg.lstsq(c.closure(t, q, base)[1][: self.loops].T, left, rcond=1e-12)[0]


def strike(c: Touched) -> Strike:
    """Return the equations of an instant of a machine, made once."""
    return c.system.once(("strike", c.domain.name), lambda: Strike(c))
