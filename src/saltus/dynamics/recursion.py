"""M a - J' f = r, J a = s by elimination from the tips to the root: the cost grows with the links, not their cube.

The kinetic energy of a tree is a sum over links, and what a joint adds touches its two links only. So the
quadratic form in the accelerations is reduced link by link: a joint's coordinate leaves the equations as soon as
all that contains it has been collected, a loop's reactions once all coordinates of the loop have left. Without
loops this is the articulated-body algorithm (Featherstone 1983); with loops it is the elimination of Popov and
Vereshchagin (1978), each loop closed at the link it springs from. Links without mass that loops hold are lent some,
and further passes solve for what the equations without it leave. Accelerations are in world axes, about the
origin of each link, where a joint's transformation is a mere shift. Three angles that turn about one point leave as an
angular acceleration, whose pivots are inertias at the pole of the angles, too: at a distance e from it those of
the angles themselves would be known to round-off over e^2, and so they are to round-off over e.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import casadi as ca

from saltus.dynamics.equations import Equations
from saltus.model.linear import Positive
from saltus.model.scale import length, mass
from saltus.model.symbols import SX, number, skew

# Of a constraint's own inverse inertia: the floor of pivots, so that reactions stay finite where a loop's constraints
# lose rank. With r the ratio of the lightest link to the others a pivot is off by (FLOOR / r)^4 of itself, which
# the step of refinement squares: a foot of 1e-12 of the machine's mass keeps its digits.
FLOOR = 1e-14
# Of the inverse of the largest mass that a coordinate of the loop carries, a floor likewise: where rods come to lie in
# line, reactions along them are noise, round-off by the square of the distance, that error control creeps up to. Chains
# of four-bars that pass such positions are right to 1e-8 rad; with 1e-10 those of 20 and 40 are not. Light links
# do not feel it, and an inverse inertia a hundred times the floor is right to round-off.
FADING = 1e-8
# Of the same: the penalty of rows of contacts, which may depend on each other. Of all reactions that give the motion
# those have the least sum of f^2 / share.
SHARING = 1e-7
# Of the machine's mass, what links without any are lent while coordinates that move nothing heavy leave: a pass is off
# by this share, and by round-off over it, times the last one's error. Measured against a dense solve of a four-bar and
# of a spatial linkage: 1e-10 leaves round-off times the condition number, 1e-9 and 1e-11 a hundred times as much.
LENT = 1e-10
Label = Hashable  # a coordinate or a constraint row by number, or (link, component) of an acceleration
Stage = tuple[str, bool]  # a link, and whether before (False) or after (True) the joint that places it is folded


@dataclass(frozen=True, eq=False)
class _Gimbal:
    """Three angles of a joint, by their places among its coordinates: their accelerations are `rates` y.

    y are angular accelerations along axes of their own, with `columns` in place of those of the angles.
    """

    places: list[int]
    rates: SX
    columns: SX


@dataclass(frozen=True, eq=False)
class _Joint:
    """One placed joint: acceleration of the child = shift (acceleration of the parent) + columns a."""

    parent: str
    child: str
    shift: SX
    columns: SX
    coordinates: list[int]
    gimbal: _Gimbal | None = None


@dataclass(frozen=True, eq=False)
class _Fold:
    """Accelerations of a child as those of its parent and of the joint's coordinates."""

    old: list[Label]
    new: list[Label]
    T: SX


@dataclass(frozen=True, eq=False)
class _Drop:
    """Unknowns that leave: x = -(D^-1 g + DK z), z the unknowns that stay; `sign` is that of D."""

    gone: list[Label]
    kept: list[Label]
    sign: int
    D: Positive
    K: SX
    DK: SX


class _Form:
    """A quadratic form z' H z / 2 in labelled unknowns."""

    def __init__(self, labels: Iterable[Label] = (), H: SX | None = None) -> None:
        self.labels = list(labels)
        self.H = SX(len(self.labels), len(self.labels)) if H is None else H

    def at(self, labels: Iterable[Label]) -> list[int]:
        """Places of some unknowns."""
        return [self.labels.index(label) for label in labels]

    def widened(self, labels: Iterable[Label]) -> _Form:
        """The same form with further unknowns."""
        new = [x for x in labels if x not in self.labels]
        n, k = len(self.labels), len(new)
        return _Form([*self.labels, *new], ca.diagcat(self.H, SX(k, k)) if n else SX(k, k)) if k else self

    def __add__(self, other: _Form) -> _Form:
        out = self.widened(other.labels)
        total, place = SX(out.H), out.at(other.labels)
        total[place, place] += other.H
        return _Form(out.labels, total)


class _Shared(Positive):
    """D x = b where rows may depend on each other, by penalties e: x = (1 + w + w^2 - 3 w^3) (D + e)^-1 b.

    Here w = (D + e)^-1 e, so that e / (c + e) stands for w where D x = c x. Of all solutions that is the one with the
    least x' e x: off by at most 4 w^3 of it, and without what round-off of b asks for along rows that move nothing,
    where w is 1.
    """

    def __init__(self, D: SX, floor: SX | None, groups: Sequence[Hashable], e: SX) -> None:
        super().__init__(D + ca.diag(e), floor, groups)
        self.e = e

    def solve(self, B: SX) -> SX:
        """x."""
        step = out = super().solve(B)
        for weight in (1, 1, -3) if self.e.nnz() else ():
            step = super().solve(ca.mtimes(ca.diag(self.e), step))
            out = out + weight * step
        return out


class Recursion:
    """The elimination for one machine and some of its constraint rows; `solve` serves any right-hand side."""

    def __init__(self, e: Equations, rows: Sequence[int]) -> None:
        self.e, self.nv, self.n = e, e.nv, len(rows)
        self.J = e.J[list(rows), :]
        self._light = e.mechanism.idle if rows else set()
        # Rows of one joint that have one unit; two such groups may differ by the square of any lengths of the machine.
        self._group: dict[Label, Hashable] = {self.nv + k: e.alike[row] for k, row in enumerate(rows)}
        self._steps: list[_Fold | _Drop] = []
        self.joints = joints(e)
        metres = [c.contact is not None or lock.startswith("shift") for c in e.closures for lock in c.locks]
        carried = self._carried(e)
        fading = {k: self._of_heaviest(carried, k) for k, row in enumerate(rows) if metres[row]}
        self._fading: dict[Label, SX] = {self.nv + k: x for k, x in fading.items() if rows[k] not in e.shares}
        self._shared: dict[Label, SX] = {
            self.nv + k: SHARING / FADING * x / e.shares[rows[k]] for k, x in fading.items() if rows[k] in e.shares
        }
        self._gone: dict[Label, SX] = {
            self.nv + k: 1 - e.weights[row] for k, row in enumerate(rows) if row in e.weights
        }
        self._rotors = ca.sparsify(ca.jacobian(e.rotors, e.a))
        self._gimbals = {x.child: x.gimbal for x in self.joints if x.gimbal and not self._rotors[_angles(x), :].nnz()}
        self._label: dict[int, Label] = {j: j for j in range(self.nv)}
        self._rows = SX(self.J)  # along the labels
        for joint in self.joints:
            if gimbal := self._gimbals.get(joint.child):
                angles = _angles(joint)
                self._label.update((j, (joint.child, "turn", k)) for k, j in enumerate(angles))
                self._rows[:, angles] = ca.mtimes(self.J[:, angles], gimbal.rates)
                self._steps.append(_Fold(list(angles), [self._label[j] for j in angles], gimbal.rates))
        self._reached = self._reach()
        self._stages = self._schedule()
        self._eliminate(e)

    def solve(self, r: SX, s: SX) -> tuple[SX, SX]:
        """Accelerations a and reactions f, with one step of refinement where there are constraints."""
        return self.refined(r, s, *self.once(r, s))

    def once(self, r: SX, s: SX) -> tuple[SX, SX]:
        """The same as near as the elimination gives them, unless links are lent mass."""
        a, f = self._pass(r, s)
        return self.refined(r, s, a, f) if self._light else (a, f)

    def refined(self, r: SX, s: SX, a: SX, f: SX) -> tuple[SX, SX]:
        """After a step of refinement."""
        for _ in range(1 if self.n else 0):
            left = SX(self.nv, 1)
            if self._light:
                left = r - self.e.times_mass(ca.densify(a)) + ca.mtimes(self.J.T, f)
            more, f_more = self._pass(left, s - ca.mtimes(self.J, a))
            a, f = a + more, f + f_more
        return a, f

    # ---- preparation --------------------------------------------------------------------------------------------

    def _reach(self) -> dict[str, list[int]]:
        """Components of each link's acceleration that can be other than zero: three in the plane."""
        out: dict[str, list[int]] = {"ground": []}
        for joint in self.joints:
            moved = set(joint.columns.row())
            if out[joint.parent]:
                moved |= set(joint.shift[:, out[joint.parent]].row())
            out[joint.child] = sorted(moved)
        return out

    def _schedule(self) -> dict[Stage, list[int]]:
        """When each coordinate (below nv) and each reaction (from nv on) can leave: all it touches is collected."""
        path: dict[str, list[str]] = {"ground": ["ground"]}
        touched: list[set[str]] = [set() for _ in range(self.nv)]
        for joint in self.joints:
            path[joint.child] = [*path[joint.parent], joint.child]
            for j in joint.coordinates:
                touched[j].add(joint.child)
        tied = zip(*self._rotors.sparsity().get_triplet(), strict=True)
        for group in _connected(self.nv, tied):  # a rotor between two links ties coordinates
            union = set().union(*(touched[k] for k in group))
            for k in group:
                touched[k] = union

        def place(links: Iterable[str], joints: Iterable[str]) -> Stage:
            common = _common([path[x] for x in links])
            return common, common in joints

        stage = [place(own, own) for own in touched]
        row, column = self.J.sparsity().get_triplet()
        for k in range(self.n):
            mine = [stage[c] for r, c in zip(row, column, strict=True) if r == k]
            stage.append(place([x for x, _ in mine], [x for x, after in mine if after]))
        out: dict[Stage, list[int]] = {}
        for unknown, when in enumerate(stage):
            out.setdefault(when, []).append(unknown)
        return out

    def _eliminate(self, e: Equations) -> None:
        forms = {"ground": _Form()}
        for joint in self.joints:
            own = self._reached[joint.child]
            inertia = _inertia(e, joint.child)
            if joint.child in self._light:
                inertia += _lent(e)
            forms[joint.child] = _Form([(joint.child, c) for c in own], inertia[own, own])
        for joint in reversed(self.joints):
            form = self._leave(forms.pop(joint.child), (joint.child, False))
            form = self._leave(self._folded(joint, form), (joint.child, True))
            forms[joint.parent] = forms[joint.parent] + form
        self._leave(forms["ground"], ("ground", False))

    def _folded(self, joint: _Joint, form: _Form) -> _Form:
        """Put the parent's acceleration and the joint's coordinates in place of the child's acceleration."""
        own, above = self._reached[joint.child], self._reached[joint.parent]
        old: list[Label] = [(joint.child, c) for c in own]
        new: list[Label] = [*((joint.parent, c) for c in above), *(self._label[j] for j in joint.coordinates)]
        columns = SX(joint.columns)
        if gimbal := self._gimbals.get(joint.child):
            columns[:, gimbal.places] = gimbal.columns
        T = ca.sparsify(ca.horzcat(joint.shift[own, above], columns[own, :]))
        self._steps.append(_Fold(old, new, T))
        rest = [x for x in form.labels if x not in old]
        a, b = form.at(old), form.at(rest)
        kept = _Form(new, symmetric(ca.mtimes([T.T, form.H[a, a], T])))
        out = kept.widened(rest)
        H, i, j = SX(out.H), out.at(new), out.at(rest)
        if rest:
            across = ca.mtimes(T.T, form.H[a, b])
            H[i, j] += across
            H[j, i] += across.T
            H[j, j] += form.H[b, b]
        return _Form(out.labels, H)

    def _leave(self, form: _Form, when: Stage) -> _Form:
        """Eliminate what is due: coordinates first, whose pivots are inertias, then the reactions they leave behind."""
        due = self._stages.get(when, [])
        coordinates, reactions = [x for x in due if x < self.nv], [x for x in due if x >= self.nv]
        if coordinates:
            J, leaving = self._rows[:, coordinates], [self._label[j] for j in coordinates]
            form = form.widened([*leaving, *(self.nv + k for k in sorted(set(J.row())))])
            H, i = SX(form.H), form.at(leaving)
            H[i, i] += self._rotors[coordinates, coordinates]
            for k in sorted(set(J.row())):
                j = form.at([self.nv + k])
                H[i, j] += J[k, :].T
                H[j, i] += J[k, :]
            form = self._drop(_Form(form.labels, H), leaving, 1)
        # Loops go before contacts: the mobility that is then left tells which of those depend on each other.
        shared = [x for x in reactions if x in self._shared]
        for gone in ([x for x in reactions if x not in self._shared], shared):
            form = self._drop(form.widened(gone), gone, -1) if gone else form  # some rows move with nothing
        return form

    def _drop(self, form: _Form, gone: Sequence[Label], sign: int) -> _Form:
        kept = [x for x in form.labels if x not in gone]
        i, j = form.at(gone), form.at(kept)
        D, floor, groups = sign * form.H[i, i], None, list[Hashable]()
        if sign < 0:
            fading, shared, absent = (
                ca.vertcat(*[own.get(x, SX(0)) for x in gone]) for own in (self._fading, self._shared, self._gone)
            )
            floor = self._floor(D, [self._group[x] for x in gone]) + fading
            D += ca.diag(absent)  # a row let go of has no reaction
            groups = [self._group[x] if x in self._fading else x for x in gone]
        factor, K = _Shared(D, floor, groups, ca.sparsify(shared)) if sign < 0 else Positive(D), form.H[i, j]
        DK = sign * factor.solve(K)
        self._steps.append(_Drop(list(gone), kept, sign, factor, K, DK))
        return _Form(kept, symmetric(form.H[j, j] - ca.mtimes(K.T, DK)))

    @staticmethod
    def _floor(D: SX, groups: Sequence[Hashable]) -> SX:
        """A share of the mean inverse inertia of each row's group, and next to nothing of all: D may be zero there."""
        diagonal, whole = ca.diag(D), FLOOR**2 * ca.trace(D) / D.shape[0]
        own = [[k for k, other in enumerate(groups) if other == group] for group in groups]
        return FLOOR * ca.vertcat(*[ca.sum1(diagonal[k]) / len(k) for k in own]) + whole

    def _carried(self, e: Equations) -> dict[str, SX]:
        """Mass of each link with all that hangs on it."""
        out = {joint.child: SX(number(e.mechanism.links[joint.child].mass)) for joint in self.joints}
        for joint in reversed(self.joints):
            if joint.parent in out:
                out[joint.parent] += out[joint.child]
        return out

    def _of_heaviest(self, carried: dict[str, SX], row: int) -> SX:
        """FADING by the largest mass that a coordinate of a row carries."""
        moved = set(self.J[row, :].sparsity().get_triplet()[1])
        heaviest = SX(0)
        for joint in self.joints:
            if moved.intersection(joint.coordinates):
                heaviest = ca.fmax(heaviest, carried[joint.child])
        return ca.if_else(heaviest > 0, FADING / heaviest, 0)

    # ---- right-hand sides ---------------------------------------------------------------------------------------

    def _pass(self, r: SX, s: SX) -> tuple[SX, SX]:
        zero = SX(1, 1)
        given = [-r[j] for j in range(self.nv)] + [-s[k] for k in range(self.n)]
        g: dict[Label, SX] = dict(enumerate(given))
        pushed: list[SX] = []
        for step in self._steps:
            old = ca.vertcat(SX(0, 1), *[g.get(x, zero) for x in (step.old if isinstance(step, _Fold) else step.gone)])
            if isinstance(step, _Fold):
                new, change = step.new, ca.mtimes(step.T.T, old)
            else:
                pushed.append(step.sign * step.D.solve(old))
                new, change = step.kept, -ca.mtimes(step.K.T, pushed[-1])
            for k, label in enumerate(new):
                g[label] = g.get(label, zero) + change[k]
        x: dict[Label, SX] = {}
        for step in reversed(self._steps):
            if isinstance(step, _Fold):
                found = ca.mtimes(step.T, ca.vertcat(SX(0, 1), *[x[label] for label in step.new]))
                x.update((label, found[k]) for k, label in enumerate(step.old))
            else:
                known = ca.vertcat(SX(0, 1), *[x[label] for label in step.kept])
                found = -(pushed.pop() + ca.mtimes(step.DK, known))
                x.update((label, found[k]) for k, label in enumerate(step.gone))
        a = ca.vertcat(SX(0, 1), *[x[j] for j in range(self.nv)])
        return a, -ca.vertcat(SX(0, 1), *[x[self.nv + k] for k in range(self.n)])


def joints(e: Equations) -> list[_Joint]:
    """Every placed joint, parents first."""
    rates = [ca.vertcat(x.w_dot, x.d_dot) for _, _, chain in e.kinematics.chains for x in chain]
    subspace = ca.sparsify(ca.jacobian(ca.vertcat(SX(0, 1), *rates), e.a))
    out, at = [], 0
    for parent, child, chain in e.kinematics.chains:
        S = subspace[at : at + 6 * len(chain), :]
        coordinates = sorted(set(S.sparsity().get_triplet()[1]))
        turn, move, offset = SX(3, len(coordinates)), SX(3, len(coordinates)), SX(3, 1)
        pose, middle = e.kinematics.pose(parent), _middle_turn(S[:, coordinates])
        axes = about = SX(3, 3)
        for k, motion in enumerate(chain):
            if k == middle:
                axes, about = pose.R, offset
            step, own = ca.mtimes(pose.R, motion.pose.p), subspace[at : at + 6, coordinates]
            move = move - ca.mtimes(skew(step), turn) + ca.mtimes(pose.R, own[3:, :])
            pose = pose @ motion.pose
            turn, offset, at = turn + ca.mtimes(pose.R, own[:3, :]), offset + step, at + 6
        shift = SX.eye(6)
        shift[3:, :3] = -skew(ca.sparsify(offset))
        gimbal = None
        if middle is not None:
            blocks = [S[6 * k : 6 * k + 3, coordinates] for k in (middle - 1, middle, middle + 1)]
            first, second, third = (ca.sum2(block) for block in blocks)
            back = _inverse(first, second, ca.mtimes(chain[middle].pose.R, third))
            lever = ca.mtimes(-skew(ca.sparsify(offset - about)), axes)
            places = [block.sparsity().get_triplet()[1][0] for block in blocks]
            gimbal = _Gimbal(places, back, ca.sparsify(ca.vertcat(axes, lever)))
        out.append(_Joint(parent, child, shift, ca.sparsify(ca.vertcat(turn, move)), coordinates, gimbal))
    return out


def _middle_turn(S: SX) -> int | None:
    """The second of three turns about one point that follow one another among motions with columns S, if there are."""
    single = []
    for k in range(S.shape[0] // 6):
        turns, shifts = S[6 * k : 6 * k + 3, :], S[6 * k + 3 : 6 * k + 6, :]
        single.append(len(set(turns.sparsity().get_triplet()[1])) == 1 and not shifts.nnz())
    return next((k for k in range(1, len(single) - 1) if all(single[k - 1 : k + 2])), None)


def _inverse(a: SX, b: SX, c: SX) -> SX:
    """Of the matrix with these three columns."""
    return ca.sparsify(ca.horzcat(ca.cross(b, c), ca.cross(c, a), ca.cross(a, b)).T / ca.dot(a, ca.cross(b, c)))


def _angles(joint: _Joint) -> list[int]:
    """Coordinates of a joint that are three angles about one point."""
    return [joint.coordinates[k] for k in joint.gimbal.places] if joint.gimbal else []


def _inertia(e: Equations, name: str) -> SX:
    """Twice the kinetic energy of a link as a form in (angular, linear) rates of its origin, world axes."""
    link, R = e.mechanism.links[name], e.kinematics.pose(name).R
    mass, arm = number(link.mass), skew(ca.mtimes(R, link.com))
    about = ca.mtimes([R, link.inertia, R.T]) + mass * ca.mtimes(arm.T, arm)
    return ca.sparsify(ca.blockcat([[about, -mass * arm.T], [-mass * arm, mass * SX.eye(3)]]))


def _lent(e: Equations) -> SX:
    """What a link without mass is lent: a mass at its origin, and an inertia by the machine's length."""
    lent = LENT * mass(e.mechanism)
    return ca.diag(ca.vertcat(*[lent * length(e.mechanism) ** 2] * 3, *[lent] * 3))


def symmetric(H: SX) -> SX:
    """One triangle mirrored: what the other one would compute is never asked for."""
    return ca.sparsify(ca.tril2symm(ca.tril(H)))


def _common(paths: Sequence[Sequence[str]]) -> str:
    """Last link that all paths from the ground share."""
    shared = "ground"
    for level in zip(*paths, strict=False):
        if len(set(level)) > 1:
            break
        shared = level[0]
    return shared


def _connected(n: int, pairs: Iterable[tuple[int, int]]) -> list[set[int]]:
    """Groups of more than one number that pairs tie together."""
    group = [{k} for k in range(n)]
    for i, j in pairs:
        if group[i] is not group[j]:
            group[i] |= group[j]
            for k in group[j]:
                group[k] = group[i]
    return list({id(g): g for g in group if len(g) > 1}.values())
