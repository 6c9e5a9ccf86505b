"""Mistakes of a first hour, and the words that lead out of each: the part, what was given, the remedy."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import pytest

import saltus as sl
from saltus import errors
from saltus.model.assembly import FORWARD


def leg():
    """A planar leg of two rods on a boom, foot at the end."""
    m = sl.Mechanism("leg")
    body = m.link("body", mass=2.0, inertia=0.02)
    thigh = m.rod("thigh", mass=0.3, length=m.param("thigh_length", 0.2, "m"))
    shank = m.rod("shank", mass=0.2, length=0.2)
    m.slide("boom", m.ground, body, axes="xy")
    m.revolute("hip", body.at(0, 0), thigh.start, motor=True)
    m.revolute("knee", thigh.end, shank.start, motor=sl.Motor(torque=10.0))
    m.foot("foot", shank.end, friction=0.7)
    return m


def start(m, **more):
    return m.assemble(boom=(0, 0.5), hip=-1.2, knee=-0.8, **more)


def loop():
    m = sl.Mechanism("four-bar")
    a, b, c = (
        m.rod(n, mass=0.1, length=x) for n, x in (("crank", m.param("a", 0.1)), ("coupler", 0.3), ("rocker", 0.25))
    )
    m.revolute("q1", m.ground, a.start, motor=True)
    m.revolute("q2", a.end, b.start)
    m.revolute("q3", m.ground.at(0.3, 0), c.start)
    m.revolute("pin", b.end, c.end)
    return m


def system():
    m = leg()
    hopper = sl.HybridSystem(m)
    hopper.domain("flight")
    hopper.domain("stance", contacts=[sl.Pinned("foot")])
    hopper.edge("flight", "stance", guard=sl.Touchdown("foot"), reset=sl.PlasticImpact())
    return hopper


def run(m, control=None, **more):
    return sl.simulate(m, start(m), until=0.05, control=control, **more)


MISTAKES = {}


def mistake(*words):
    """A mistake, and the words that the message must hold."""

    def keep(function):
        MISTAKES[function.__doc__] = (function, words)

    return keep


def said(notes):
    """What a run says without an error."""
    raise errors.SaltusError(" ".join(notes))


# ---- parts


@mistake("link 'thigh' exists already in 'leg'", "another name")
def _():
    """a link named twice"""
    m = leg()
    m.rod("thigh", mass=1.0, length=1.0)


@mistake("rod 'thigh'", "-0.3", "positive")
def _():
    """a mass below zero"""
    sl.Mechanism("m").rod("thigh", mass=-0.3, length=1.0)


@mistake("rod 'thigh'", "0.3 kg", "number")
def _():
    """a mass that is a word"""
    sl.Mechanism("m").rod("thigh", mass="0.3 kg", length=1.0)


@mistake("link 'body'", "(1, 1, 1)", "one number", "kg m2")
def _():
    """three moments of inertia for a planar link"""
    sl.Mechanism("m").link("body", mass=1.0, inertia=(1, 1, 1))


@mistake("link 'body'", "1, 1, 3", "sum of the other two")
def _():
    """moments of inertia that no body has"""
    sl.Mechanism("m", spatial=True).link("body", mass=1.0, inertia=(1, 1, 3))


@mistake("rod 'thigh'", "length", "positive")
def _():
    """a length of zero"""
    sl.Mechanism("m").rod("thigh", mass=0.3, length=0.0)


@mistake("'length'", "params={'length': ...}")
def _():
    """a Param without a value, used"""
    m = sl.Mechanism("m")
    rod = m.rod("rod", mass=1.0, length=m.param("length"))
    m.revolute("pin", m.ground, rod.start)
    m.assemble(pin=0.1)


@mistake("the symbol hip", "take sl.math.sin")
def _():
    """math.sin of a symbol"""
    m = leg()
    m.torque("wind", m.links["thigh"], math.sin(m.q.hip))


@mistake("controller '<lambda>'", "sl.math.where in place of if", "Sampled")
def _():
    """if on a symbol in a controller"""
    run(leg(), lambda t, s: {"hip": 1.0 if s.q.hip > 0 else -1.0})


@mistake("group of 2", "(x, y)", "by name")
def _():
    """a group of coordinates in arithmetic"""
    run(leg(), lambda t, s: {"hip": -5.0 * s.q.boom})


@mistake("joint 'odd'", "'thigh' to itself", "two different links")
def _():
    """a joint of a link with itself"""
    m = leg()
    m.revolute("odd", m.links["thigh"].start, m.links["thigh"].end)


@mistake("'tail'", "not connected", "m.free")
def _():
    """a link that hangs on nothing"""
    m = leg()
    m.rod("tail", mass=0.1, length=0.1)
    start(m)


@mistake("joint 'knee' exists already")
def _():
    """a joint name twice"""
    m = leg()
    m.revolute("knee", m.links["thigh"].start, m.links["shank"].start)


@mistake("joint 'rail'", "leaves the plane", "spatial=True")
def _():
    """a wrong axis of a planar slide"""
    m = sl.Mechanism("m")
    m.slide("rail", m.ground, m.link("body", mass=1.0), axes="z")


@mistake("point 'toe'", "no place", "link.end")
def _():
    """a point that is only a link"""
    m = leg()
    m.point("toe", m.links["shank"])


@mistake("point named 'toe'", "foot")
def _():
    """an unknown point"""
    start(leg()).position("toe")


# ---- assembly


@mistake("'hipp'", "Did you mean 'hip'?")
def _():
    """a coordinate that does not exist"""
    leg().assemble(hipp=0.3)


@mistake("0.301 m at 'pin'", "change lengths")
def _():
    """a loop that cannot close"""
    m = sl.Mechanism("long way")
    a, b = (m.rod(n, mass=0.1, length=0.1) for n in ("left", "right"))
    m.revolute("q1", m.ground, a.start)
    m.revolute("q2", m.ground.at(0.5, 0), b.start)
    m.revolute("pin", a.end, b.end)
    m.assemble(q1=0.1)


@mistake("hip = -70", "radians", "math.radians(-70)")
def _():
    """degrees where radians are meant"""
    leg().assemble(boom=(0, 0.5), hip=-70.0, knee=-45.0)


@mistake("'boom' takes 2", "boom.x, boom.y", "1 given")
def _():
    """one number for a joint of two"""
    leg().assemble(boom=0.5)


@mistake("q1, q2, q3 held", "0.21 m at 'pin'", "Hold fewer")
def _():
    """a coordinate that the loop decides"""
    loop().assemble(q1=0.5, q2=0.1, q3=0.2)


@mistake("velocity named 'hop'", "Did you mean 'hip'?")
def _():
    """a rate of no coordinate"""
    start(leg(), rates={"hop": 1.0})


@mistake("keyframe named 'standing'", "crank level, drop")
def _():
    """a keyframe that does not exist"""
    sl.zoo.bolt().mechanism.keyframe("standing")


@mistake("'hip'", "not a finite number")
def _():
    """not a number as an angle"""
    leg().assemble(hip=float("nan"))


@mistake("param named 'thigh'", "thigh_length")
def _():
    """an unknown Param"""
    start(leg(), params={"thigh": 0.3})


# ---- runs


@mistake("m.assemble(...)")
def _():
    """no start"""
    sl.simulate(leg(), {"hip": 0.1}, until=0.1)


@mistake("ModelFile is no machine", ".system")
def _():
    """what was read from a file in place of its machine"""
    m = leg()
    sl.write(m, "leg.yaml")
    sl.simulate(sl.read("leg.yaml"), start(m), until=0.1)


@mistake("m.keyframe('trot')")
def _():
    """the name of a keyframe as a start"""
    sl.simulate(sl.zoo.quadruped(), "trot", until=0.1)


@mistake("another machine", "assemble")
def _():
    """the start of a machine that was made once more"""
    sl.simulate(leg(), start(leg()), until=0.1)


@mistake("actions have 3 numbers", "inputs")
def _():
    """more actions than inputs"""
    m = leg()
    sl.rollout(m, start(m), [[0.0, 0.0, 0.0]])


@mistake("until is -1.0", "above 0")
def _():
    """a run into the past"""
    m = leg()
    sl.simulate(m, start(m), until=-1.0)


@mistake("tolerance is 1.0", "between 1e-14 and 1e-2")
def _():
    """a tolerance of one"""
    run(leg(), tolerance=1.0)


@mistake("engine named 'rk45'", "native, scipy, sundials")
def _():
    """an engine of another program"""
    run(leg(), engine="rk45")


@mistake("'SPF'", "sl.formulations.SPF()")
def _():
    """a formulation by its name"""
    run(leg(), formulation="SPF")


@mistake("domain named 'air'", "flight, stance")
def _():
    """a domain that does not exist"""
    h = system()
    sl.simulate(h, start(h.mechanism), until=0.1, domain="air")


@mistake("in which domain to start", "flight, stance")
def _():
    """no domain to start in"""
    h = system()
    sl.simulate(h, start(h.mechanism), until=0.1)


@mistake("Did you mean 'touchdown'?")
def _():
    """an event that does not exist"""
    h = system()
    sl.simulate(h, start(h.mechanism), until=0.1, domain="flight", stop_after={"touch down": 3})


@mistake("leaves out knee", "zero where it shall do nothing")
def _():
    """a controller that forgets a motor"""
    run(leg(), lambda t, s: {"hip": 1.0})


@mistake("input named 'ankle'", "hip, knee")
def _():
    """a controller for a motor that is none"""
    run(leg(), lambda t, s: {"ankle": 1.0})


@mistake("returned 3.0", "{'hip': torque}")
def _():
    """a controller that returns a number"""
    run(leg(), lambda t, s: 3.0)


@mistake("returned None", "{'hip': torque}")
def _():
    """a controller that returns nothing"""
    run(leg(), lambda t, s: None)


@mistake("must take (t, s)")
def _():
    """a controller of one argument"""
    run(leg(), lambda s: {"hip": 1.0})


@mistake("controller '<lambda>'", "inf for 'hip'")
def _():
    """a controller that divides by zero"""
    run(leg(), lambda t, s: {"hip": 1.0 / (s.q.hip - s.q.hip), "knee": 0.0})


@mistake("controller '<lambda>'", "not finite for hip")
def _():
    """a controller whose root becomes imaginary"""
    said([run(leg(), lambda t, s: {"hip": sl.math.sqrt(0.01 - t), "knee": 0.0}).outcome.detail])


@mistake("'nee'", "Did you mean 'knee'?")
def _():
    """a coordinate misspelt in a controller"""
    run(leg(), lambda t, s: {"hip": -s.q.nee})


@mistake("'downwards'", "falling, rising")
def _():
    """a guard of no known direction"""
    sl.When(lambda s: s.q.boom.y, "downwards")


@mistake("guard is 3.0", "sl.When(")
def _():
    """a guard that is a number"""
    h = system()
    h.edge("stance", "flight", guard=3.0)


@mistake("edge 'over' in domain 'flight'", "gives 'up'", "one number or expression")
def _():
    """a guard that gives text"""
    h = system()
    h.edge("flight", "stance", guard=sl.When(lambda s: "up", "rising"), name="over")
    sl.simulate(h, start(h.mechanism), until=0.1, domain="flight")


@mistake("edge from 'flight' leads to None", "system.ends(")
def _():
    """an edge to nowhere"""
    h = system()
    h.edge("flight", None, guard=sl.When(lambda s: s.q.boom.y, "falling"))


@mistake("domain named 'swing'", "flight, stance")
def _():
    """an edge from nowhere"""
    h = system()
    h.edge("swing", "flight", guard=sl.Liftoff("foot"))


@mistake("liftoff", "'flight' has no contact", "never fire")
def _():
    """liftoff of what is not in contact"""
    h = system()
    h.edge("flight", "stance", guard=sl.Liftoff("foot"), name="up")
    sl.simulate(h, start(h.mechanism), until=0.1, domain="flight")


@mistake("'foot' 0.1683 m below the ground", "assemble it outside")
def _():
    """a foot that starts under the ground"""
    m = leg()
    sl.simulate(m, m.assemble(boom=(0, 0.2), hip=-1.2, knee=-0.8), until=0.1)


# ---- results


@mistake("t = 9 s", "from 0 to 0.05 s")
def _():
    """an instant outside the run"""
    run(leg()).at(9.0)


@mistake("'hipp'", "Did you mean 'hip'?")
def _():
    """a coordinate of a run that does not exist"""
    print(run(leg()).q.hipp)


@mistake("contact point named 'toe'", "foot")
def _():
    """the force of a point that touches nothing"""
    run(leg()).force("toe")


@mistake("no directory", "make it first")
def _():
    """a run written to a folder that does not exist"""
    sl.write(run(leg()), "nowhere/run.nc")


@mistake("run.mat", ".nc (whole), .csv")
def _():
    """a run written as a picture"""
    sl.write(run(leg()), "run.mat")


@mistake("none.saltus.yaml does not exist")
def _():
    """a file that does not exist"""
    sl.read("none.saltus.yaml")


@mistake("Did you mean 'Mechanism'?")
def _():
    """a public name that does not exist"""
    sl.Mechansim("m")


@mistake("foot 'heel'", "friction", "-0.5")
def _():
    """a friction below zero"""
    m = leg()
    m.foot("heel", m.links["shank"].at(0.1, 0), friction=-0.5)


@mistake("stop of 'knee'", "lower 1.0 is not below upper -1.0")
def _():
    """a stop whose limits are the wrong way round"""
    leg().stop("knee", lower=1.0, upper=-1.0)


@mistake("5 rad", "sl.ground.Slope(5, 'deg')")
def _():
    """a slope in degrees"""
    run(leg(), ground=sl.ground.Slope(5))


@mistake("gravity", "4 number(s) given")
def _():
    """gravity of four numbers"""
    sl.Mechanism("m", gravity=(0, -9.81, 0, 0))


@mistake("params a", "0.0176 m", "m.assemble(..., params={'a': ...})")
def _():
    """a length changed after assembly"""
    m = loop()
    begin = m.assemble(q1=0.5, near={"q2": 0.5, "q3": 1.5})
    sl.simulate(m, begin, until=0.1, params={"a": 0.12})


@mistake("of 'leg', not of 'four-bar'")
def _():
    """a start of another machine"""
    sl.simulate(loop(), start(leg()), until=0.1)


@mistake("no guard fired", "'flight' waited for never")
def _():
    """a guard that never fires"""
    h = sl.HybridSystem(leg())
    h.domain("flight")
    h.edge("flight", "flight", guard=sl.When(lambda s: s.q.boom.y - 100.0, "rising"), name="never")
    said(sl.simulate(h, start(h.mechanism), until=0.05).meta["notes"])


@mistake("controller 'law'", "'<lambda>'", "traced controller")
def _():
    """a sampled controller written to a file"""
    h = sl.HybridSystem(loop())
    h.domain("motion")
    h.controls["law"] = sl.control.Sampled(lambda t, s: {"q1": 0.0}, rate=100)
    sl.write(h, "leg.saltus.yaml")


@mistake("'cost_of_transport'", "lambda g: g.cost_of_transport")
def _():
    """an unknown goal of a design"""
    sl.design.design_gait(sl.design.GaitTask(sl.zoo.hopper), {"c": (1.0, 2.0)}, minimise="cost_of_transport")


@mistake("foot 'toe' has no friction", "friction=0.7")
def _():
    """a foot without friction"""
    m = leg()
    m.foot("toe", m.links["shank"].at(0.1, 0))
    run(m)


# ---- feet, stops, ground, motors, files, batches


def stander():
    """A foot with heel and toe, a shank, a trunk."""
    m = sl.Mechanism("stander")
    foot, shank = m.link("foot", mass=0.5, inertia=0.002), m.rod("shank", mass=1.0, length=0.4)
    m.free("base", m.ground, foot)
    m.revolute("ankle", foot.at(0, 0.08), shank.start, motor=sl.Motor(torque=8.0))
    m.foot("heel", foot.at(-0.05, 0), friction=0.7)
    m.foot("toe", foot.at(0.15, 0), friction=0.7)
    return m


@mistake("foot 'toe' is a point of the ground", "a link that moves")
def _():
    """a foot on the ground's own link"""
    m = leg()
    m.foot("toe", m.ground.at(0.1, 0), friction=0.5)


@mistake("'shank.end' names no point of 'leg'", "m.links['shank'].end")
def _():
    """an end of a rod as text"""
    m = leg()
    m.foot("toe", "shank.end", friction=0.5)


@mistake("static friction 0.5 is below that of slip, 0.8", "as much or more")
def _():
    """friction of rest below that of slip"""
    m = leg()
    m.foot("toe", m.links["shank"].at(0.1, 0), friction=0.8, static=0.5)


@mistake("stop of 'knee' at -140 is in radians", "math.radians(-140)")
def _():
    """a stop in degrees"""
    leg().stop("knee", lower=-140, upper=-5)


@mistake("'boom.y'", "boom.x, boom.y, hip, knee")
def _():
    """a stop of a joint with two coordinates"""
    leg().stop("boom", lower=0, upper=1)


@mistake("'knee' beyond its lower stop (-0.5) by 0.3")
def _():
    """a start beyond a stop"""
    m = leg()
    m.stop("knee", lower=-0.5, upper=0.0)
    run(m)


@mistake("'stairs'", "sl.ground.Slope(5, 'deg')")
def _():
    """a ground by its name"""
    run(leg(), ground="stairs")


@mistake("terrain", "x alone in the plane")
def _():
    """a terrain of x and y under a planar machine"""
    run(leg(), ground=sl.ground.Terrain(lambda x, y: 0.1 * x))


@mistake("a HybridSystem has its own, HybridSystem(m, ground=...)")
def _():
    """a slope for a graph of domains"""
    h = system()
    sl.simulate(h, start(h.mechanism), domain="flight", until=0.05, ground=sl.ground.Slope(5, "deg"))


@mistake("a point of link 'ground' is no face", "link.plane(x, y, normal=(0, 1))")
def _():
    """a point where a face is meant"""
    m = leg()
    m.touch("tip", m.links["shank"].end, m.ground.at(0.5, 0))


@mistake("touch 'tip': radius of its face is -0.1", "positive")
def _():
    """a round face of negative radius"""
    m = leg()
    m.touch("tip", m.links["shank"].end, m.ground.round(0.5, 0, radius=-0.1))


@mistake("foot 'ball': radius is -0.02 for the given Params", "zero or more")
def _():
    """a round foot whose radius a run makes negative"""
    m = leg()
    m.foot("ball", m.links["thigh"].end, friction=0.7, radius=m.param("size", 0.02, "m"))
    run(m, params={"size": -0.02})


@mistake("'knee' of 'leg' cannot have a stop", "rename")
def _():
    """a foot that is called like the joint of a stop"""
    m = leg()
    m.foot("knee", m.links["thigh"].end, friction=0.7)
    m.stop("knee", lower=-2.4)


@mistake("terrain", "kinks", "sl.ground.Profile(x, heights)")
def _():
    """a terrain with a kink, which a sliding foot would pass without an impact"""
    run(leg(), ground=sl.ground.Terrain(lambda x: 0.1 * abs(x)))


@mistake("'foot' where what it touches has no place", "look at the terrain's function")
def _():
    """a terrain that has no height where the foot is"""
    run(leg(), ground=sl.ground.Terrain(lambda x: sl.math.sqrt(x - 1)))


@mistake("no link named 'shin'", "Valid names", "shank")
def _():
    """a foot on a link that does not exist"""
    m = leg()
    m.foot("heel", m.links["shin"].end, friction=0.7)


@mistake("terrain", "holds slope", "a sl.ground.Terrain for each value")
def _():
    """a Param in the height of a terrain"""
    m = leg()
    slope = m.param("slope", 0.1)
    run(m, ground=sl.ground.Terrain(lambda x: slope * x))


@mistake("if, and, or, min or max", "sl.ground.Profile(x, heights)")
def _():
    """a terrain that branches"""
    run(leg(), ground=sl.ground.Terrain(lambda x: 0.0 if x < 0.1 else 0.05))


@mistake("terrain", "gives None", "return a height (m)")
def _():
    """a terrain whose function forgets to return"""
    run(leg(), ground=sl.ground.Terrain(lambda x: None))


@mistake("sl.ground.Slope")
def _():
    """a shape of the ground looked for at the top"""
    sl.Slope(5, "deg")


@mistake("touch 'tip'", "link 'ground'", "give point, then face")
def _():
    """a face in place of a point"""
    m = leg()
    m.touch("tip", m.ground.plane(1, 0, normal=(-1, 0)), m.links["shank"].end)


@mistake("dry friction of 'knee'", "0.1 is below that of slip, 0.3", "as much or more")
def _():
    """dry friction that holds less at rest"""
    leg().rub("knee", 0.3, static=0.1)


@mistake("foot 'toe': friction", "(0.8, 0.6) is not a finite number", "give one")
def _():
    """two frictions at once"""
    m = leg()
    m.foot("toe", m.links["shank"].at(0.1, 0), friction=(0.8, 0.6))


@mistake("ground is <function", "sl.ground.Terrain(function)")
def _():
    """a ground that is a function alone"""
    run(leg(), ground=lambda x: 0.01 * x)


@mistake("profile: x[2] = 1 is followed by 1", "at most two heights at one x")
def _():
    """three heights at one place"""
    sl.ground.Profile([0, 1, 1, 1, 2], [0, 0.1, 0.3, 0.2, 0])


@mistake("profile: 3 x and 3 heights, 1 of them not finite")
def _():
    """a height that is no number"""
    sl.ground.Profile([0, 1, 2], [0, math.nan, 0])


@mistake("profile: x is ['a', 'b']", "list of numbers")
def _():
    """a table of text"""
    sl.ground.Profile(["a", "b"], [0, 1])


@mistake("stairs: rise 0.1, run 0, count 3", "positive run (the depth of a step)")
def _():
    """stairs without depth"""
    sl.ground.Stairs(rise=0.1, run=0, count=3)


@mistake("no contact named 'heel'", "foot")
def _():
    """the friction used by a foot that is not there"""
    run(leg()).contacts.friction_used("heel")


@mistake("run of 'leg' has no whole stride", "run it longer", "period")
def _():
    """the gait of a run that never touched"""
    sl.find_orbit(leg(), run(leg()).last_stride)


@mistake("no contact named 'toe'", "foot")
def _():
    """a foot that is not there, in a law"""
    run(leg(), lambda t, s: {"hip": s.touching.toe, "knee": 0.0})


@mistake("s.height: what feet of 'leg' meet is given with each run", "s.touching")
def _():
    """a height above ground of any shape"""
    run(leg(), lambda t, s: {"hip": s.height("foot"), "knee": 0.0}, ground=-0.1)


@mistake("control is 'run'", "function (t, s)", "m.controls['walk']")
def _():
    """a controller by its name"""
    m = leg()
    m.controls["walk"] = lambda t, s: {"hip": 0.0, "knee": 0.0}
    run(m, "run")


@mistake("near is [0.5, 1.5]", "near={'knee': 1.5}")
def _():
    """a guess without names"""
    loop().assemble(q1=0.5, near=[0.5, 1.5])


@mistake("stand: the start is Mechanism('stander'", "m.assemble(...)")
def _():
    """a machine in place of a state, to stand"""
    sl.stand(stander())


@mistake("stand: no foot of 'stander' is within", "lower it")
def _():
    """a stand in the air"""
    sl.stand(stander().assemble(base=(0, 0.5, 0), ankle=math.pi / 2))


@mistake("stand: on is 'toe'", "on=['toe']")
def _():
    """one foot to stand on, not in a list"""
    sl.stand(stander().assemble(ankle=math.pi / 2), on="toe")


@mistake("Balance: State of 'stander'", "sl.stand(start)")
def _():
    """a state in place of a rest, to balance"""
    sl.control.Balance(stander().assemble(ankle=math.pi / 2))


@mistake("motor takes True or a Motor(...), not 20.0")
def _():
    """a torque in place of a motor"""
    m = leg()
    m.revolute("toe", m.links["shank"].end, m.rod("toe", mass=0.1, length=0.1).start, motor=20.0)


@mistake("stall begins the line that ends at speed", "give speed too")
def _():
    """a torque at rest without a speed"""
    sl.Motor(stall=3.0)


@mistake("motor: speed = 20.0 ends a line along which torque falls", "give torque, current, stall or power too")
def _():
    """a speed without load and no torque"""
    sl.Motor(speed=20.0)


@mistake("behind a spring or play needs inertia", "rotor_inertia")
def _():
    """play without a rotor"""
    m = leg()
    m.revolute("toe", m.links["shank"].end, m.rod("toe", mass=0.1, length=0.1).start, motor=sl.Motor(backlash=0.01))


@mistake("leg.step", "no file of a machine", ".urdf")
def _():
    """a drawing read as a robot"""
    Path("leg.step").write_text("ISO-10303-21;")
    sl.read("leg.step")


@mistake("cannot be written as '.step'", ".saltus.yaml")
def _():
    """a machine written as a drawing"""
    sl.write(leg(), "leg.step")


@mistake("base is 'floating'", '"fixed" or "free"')
def _():
    """a base of another word"""
    sl.write(sl.zoo.five_bar(), "five.urdf")
    sl.read("five.urdf", base="floating")


@mistake("film.mp4 would be an animated GIF", ".gif")
def _():
    """a film of another format"""
    sl.view.animate(run(leg()), "film.mp4")


@mistake("call batch.reset(start) first")
def _():
    """a batch that has no start"""
    sl.Batch(leg(), 4, step=1e-3).step([0.0, 0.0])


@mistake("actions have shape (1,)", "(2,) or (4, 2)")
def _():
    """an action for one of two motors of a batch"""
    m = leg()
    batch = sl.Batch(m, 4, step=1e-3)
    batch.reset(start(m))
    batch.step([0.0])


@mistake("no keyframe named 'stand'", "Did you mean 'standing'?")
def _():
    """a pose of the quadruped by another name"""
    sl.zoo.quadruped().keyframe("stand")


@mistake("param 'thigh_length' cannot be set to 0.3 in a machine", "m.assemble(..., params={'thigh_length': ...})")
def _():
    """a Param of a machine set like a variable"""
    leg().params["thigh_length"] = 0.3


@mistake("coordinate 'hip' cannot be set", "m.assemble(near=state, hip=...)")
def _():
    """a coordinate of a state set like a variable"""
    start(leg()).q.hip = 0.3


@mistake("coordinate 'hip' cannot be set", "m.assemble(near=state, hip=...)")
def _():
    """a coordinate of a state set by its name"""
    start(leg()).q["hip"] = 0.3


@mistake("plot_machine: what is drawn is Mechanism('leg'", "m.assemble(...)")
def _():
    """a machine drawn in no pose"""
    sl.view.plot_machine(leg())


@mistake("the start is <Trajectory of leg", "run.last_stride")
def _():
    """a whole run to start an orbit from"""
    m = leg()
    sl.find_orbit(m, run(m))


@mistake("forward: what moves is Mechanism('leg'", "m.assemble(...)")
def _():
    """accelerations of a machine in no pose"""
    sl.forward(leg())


@mistake("trace: q is a State", "state.positions")
def _():
    """the trace of a state"""
    m = leg()
    sl.trace(m, start(m), ["foot"])


@mistake("force 'push' leaves the plane", "(x, y)")
def _():
    """a force of three components in the plane"""
    m = leg()
    m.force("push", m.links["body"].at(0, 0), (0.0, 0.0, -5.0))


@mistake("no machine of the zoo named 'bollt'", "Did you mean 'bolt'?")
def _():
    """a machine of the zoo misspelt"""
    sl.zoo.bollt()


@mistake("keyframe 'stand' is State of 'leg'", "what m.assemble takes")
def _():
    """a state kept as a keyframe"""
    m = leg()
    m.keyframes["stand"] = start(m)
    m.keyframe("stand")


@mistake("gravity is -9.81", "things fall up", "give 9.81")
def _():
    """gravity with a sign"""
    sl.Mechanism("apple", gravity=-9.81)


@mistake("report.pdf would be a page", "report.html")
def _():
    """a report of another format"""
    sl.view.report(run(leg()), "report.pdf")


@mistake("'l_1' varies in 0.02", "(low, high)")
def _():
    """a number where a design wants bounds"""
    turn = sl.design.Turn(sl.zoo.four_bar().keyframe("middle"), "crank", 72)
    sl.design.optimise(turn, vary={"l_1": 0.02}, minimise=sl.design.StrideLength("tracer"))


@mistake("basin: changes of 'z_U' are 0.1", "a list of numbers")
def _():
    """one number where a basin wants a list"""
    hopper = sl.zoo.hopper()
    sl.orbits.basin(sl.find_orbit(hopper, hopper.keyframes["takeoff"]), ("z_U", 0.1), ("v.z_U", [0.1]))


# ---- laws, files and views by hand


@mistake("until is '1'", "number")
def _():
    """an end of a run in quotes"""
    m = leg()
    sl.simulate(m, start(m), until="1")


@mistake("'hip'", "'1'", "one number")
def _():
    """a torque in quotes"""
    run(leg(), lambda t, s: {"hip": "1", "knee": 0})


@mistake("controller '<lambda>'", "{'hip': torque}", "hip, knee")
def _():
    """torques in an array"""
    run(leg(), lambda t, s: [1.0, 2.0])


@mistake("asks whether a symbol is true", "sl.math.fmax in place of max")
def _():
    """Python's max in a controller"""
    run(leg(), lambda t, s: {"hip": max(s.q.hip, 0), "knee": 0})


@mistake("asks whether a symbol is true", "sl.math.where")
def _():
    """and between two conditions in a controller"""
    run(leg(), lambda t, s: {"hip": 1.0 * (s.q.hip > 0 and s.v.hip > 0), "knee": 0})


@mistake("called with a name", "s.position('foot').y")
def _():
    """a point of the signals without a call"""
    run(leg(), lambda t, s: {"hip": s.position.foot.y, "knee": 0})


@mistake("'thigh' names no point", "m.links['thigh'].at(0, 0)")
def _():
    """links by their names in a joint"""
    leg().revolute("odd", "thigh", "shank")


@mistake("link 'body'", "(x, y) in metres", "1 number")
def _():
    """a place of one number"""
    leg().links["body"].at(0.1)


@mistake("coordinate 'hip'", "'30deg'", "not a number")
def _():
    """an angle with its unit"""
    leg().assemble(hip="30deg")


@mistake("torque = -5", "positive")
def _():
    """a motor's torque below zero"""
    sl.Motor(torque=-5)


@mistake("gear = 0", "other than zero")
def _():
    """a gear of zero"""
    sl.Motor(gear=0)


@mistake("joint 'toes'", "True or a Motor(...)", "'yes'")
def _():
    """a motor that is a word"""
    m = leg()
    m.revolute("toes", m.links["shank"].end, m.rod("toe", mass=0.1, length=0.1).start, motor="yes")


@mistake("spring 's'", "stiffness", "-1.0 is below 0")
def _():
    """a stiffness below zero"""
    leg().joint_spring("s", "hip", stiffness=-1.0)


@mistake("velocity 'hip' takes 1 number", "2 given")
def _():
    """two rates for a joint of one"""
    start(leg(), rates={"hip": (1, 2)})


@mistake("'a'", "not of 'leg'", "m.param(...)")
def _():
    """a Param of no machine"""
    leg().rod("tail", mass=1, length=sl.Param("a", 1.0))


@mistake("link 'thigh' belongs to another mechanism than 'leg'")
def _():
    """a joint between two machines"""
    m, other = leg(), leg()
    m.revolute("odd", m.links["shank"].end, other.links["thigh"].start)


@mistake("'cpp'", "c, fmu, numpy")
def _():
    """an export to another language"""
    sl.export(leg(), "out", to="cpp")


@mistake("holds no sweep", "give a file")
def _():
    """a directory read"""
    Path("empty").mkdir(exist_ok=True)
    sl.read("empty")


@mistake("without an ending", ".saltus.yaml")
def _():
    """a machine written without an ending"""
    sl.write(leg(), "leg")


@mistake("as sl.simulate returns it", "State", "plot_machine")
def _():
    """a state animated"""
    sl.view.animate(start(leg()))


@mistake("as sl.simulate returns it", "Mechanism")
def _():
    """a machine reported on"""
    sl.view.report(leg(), "leg.html")


@mistake("as sl.simulate returns it", "State")
def _():
    """the energy of a state drawn"""
    sl.view.plot_energy(start(leg()))


@mistake("web page", "raw")
def _():
    """a page of a web site saved as a robot"""
    Path("page.xml").write_text("<!DOCTYPE html><html></html>")
    sl.read("page.xml")


@mistake("tabs.saltus.yaml:4", "a tab", "spaces")
def _():
    """tabs in a model file"""
    Path("tabs.saltus.yaml").write_text("saltus: 1\nname: a\nlinks:\n\ta: {mass: 1}\n")
    sl.read("tabs.saltus.yaml")


HINGE = (
    "saltus: 1\nname: a\nlinks: {{b: {{mass: 1, length: 1}}}}\njoints: {{j: {{type: {0}, a: ground, b: b.start}}}}\n"
)


@mistake("hinge.saltus.yaml:4", "joints.j", "'revolute' here, not a 'hinge'")
def _():
    """a joint by the word of another format"""
    Path("hinge.saltus.yaml").write_text(HINGE.format("hinge"))
    sl.read("hinge.saltus.yaml")


@mistake("hinge.saltus.yaml:4", "no type named 'revolut'", "Did you mean 'revolute'?")
def _():
    """a joint type misspelt in a file"""
    Path("hinge.saltus.yaml").write_text(HINGE.format("revolut"))
    sl.read("hinge.saltus.yaml")


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_told_with_its_remedy(what, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    function, words = MISTAKES[what]
    with warnings.catch_warnings(record=True) as hints:
        warnings.simplefilter("always")
        try:
            function()
            told = " ".join(str(hint.message) for hint in hints)
        except errors.SaltusError as problem:
            told = str(problem)
    for word in words:
        assert word in told, told


def test_pythons_math_is_refused_of_time_and_params_wherever_they_stand():
    """CasADi's float of a symbol is NaN, of which math.copysign and math.pow(1, x) made plain numbers."""
    m = sl.Mechanism("machine")
    length = m.param("length", 1.0)
    for call in (
        lambda: math.copysign(1.0, m.time),
        lambda: math.pow(1.0, 2 * length),
        lambda: math.sin(m.time),
        lambda: math.isnan(2 * length),
    ):
        with pytest.raises(errors.BadValue, match=r"a float was taken of the symbol .* take sl\.math\.sin"):
            call()
    assert float(sl.SX(2.5)) == 2.5


def test_a_state_says_who_knows_its_energy():
    """Every word of the hint is an answer of sl.forward."""
    state = leg().assemble()
    for name in FORWARD:
        with pytest.raises(AttributeError, match=rf"sl\.forward\(state\)\.{name} has it"):
            getattr(state, name)
        assert hasattr(sl.forward(state), name)
    assert not hasattr(state, "colour")
