"""The description of a machine: parts, joints, loops, assembly."""
