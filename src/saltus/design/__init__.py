"""Design: kinematic study of a driven linkage, sensitivity, lookup tables, and optimisation over Params."""
