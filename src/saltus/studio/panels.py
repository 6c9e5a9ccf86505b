"""The panels of a page, and what each has to know of the others."""

from __future__ import annotations

from dataclasses import dataclass

from saltus.studio.gait_panel import GaitPanel
from saltus.studio.keeping import Keeping
from saltus.studio.machine_panel import MachinePanel
from saltus.studio.run_panel import RunPanel
from saltus.studio.session import Session
from saltus.studio.target_panel import TargetPanel


@dataclass(frozen=True)
class Panels:
    """One panel per tab; a target can be drawn for planar machines with loops and a point."""

    machine: MachinePanel
    run: RunPanel
    gait: GaitPanel
    target: TargetPanel | None


def furnish(session: Session) -> Panels:
    """Put the panels into a page."""
    tabs = session.client.gui.add_tab_group()
    with tabs.add_tab("Machine"):
        machine = MachinePanel(session)
        keeping = Keeping(session, machine)
    with tabs.add_tab("Run"):
        run = RunPanel(session)
    with tabs.add_tab("Gait"):
        gait = GaitPanel(session, run)
    target = None
    if not session.mechanism.spatial and session.posing.assembler.owner and machine.point is not None:
        with tabs.add_tab("Target"):
            target = TargetPanel(session, machine)
    machine.update()
    if session.wish:
        session.post("wish", keeping.open)
    if session.model.run is not None:
        run.load(session.model.run)
    return Panels(machine, run, gait, target)
