"""The colours of every picture, told apart with any common colour vision."""

# Okabe and Ito (2008), "Color universal design": told apart with any common colour vision.
PALETTE = {
    "blue": "#0072B2",
    "vermillion": "#D55E00",
    "green": "#009E73",
    "purple": "#CC79A7",
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "black": "#222222",
    "yellow": "#F0E442",
}
COLOURS = [c for name, c in PALETTE.items() if name != "yellow"]
STANCE = "#e9e4d8"  # background of the phases on the ground
SHADOW = "#c9c9c9"
