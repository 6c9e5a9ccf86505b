"""Polynomials between samples: coefficients (interval, power, component) of the fraction of an interval gone by."""

from __future__ import annotations

import numpy as np


def quintic(h: np.ndarray, y: np.ndarray, d: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Return those of values, rates and second rates at the samples; all three are continuous."""
    h = h[:, None]
    step, d0, d1, s0, s1 = y[1:] - y[:-1], h * d[:-1], h * d[1:], h**2 * s[:-1], h**2 * s[1:]
    third = 10 * step - 6 * d0 - 4 * d1 - (3 * s0 - s1) / 2
    fourth = -15 * step + 8 * d0 + 7 * d1 + (3 * s0 - 2 * s1) / 2
    fifth = 6 * step - 3 * (d0 + d1) - (s0 - s1) / 2
    return np.stack([y[:-1], d0, s0 / 2, third, fourth, fifth], axis=1)


def cubic(h: np.ndarray, y: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Return those of values and rates."""
    h = h[:, None]
    step, d0, d1 = y[1:] - y[:-1], h * d[:-1], h * d[1:]
    return np.stack([y[:-1], d0, 3 * step - 2 * d0 - d1, d0 + d1 - 2 * step], axis=1)


def linear(y: np.ndarray) -> np.ndarray:
    """Return those of values alone."""
    return np.stack([y[:-1], y[1:] - y[:-1]], axis=1)


def parabola(y: np.ndarray) -> np.ndarray:
    """Return those of values at the ends and in the middle of every interval."""
    left, middle, right = y[:-1:2], y[1::2], y[2::2]
    return np.stack([left, 4 * middle - 3 * left - right, 2 * (left - 2 * middle + right)], axis=1)


def slope(coefficients: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Return those of the rate, given the lengths of the intervals."""
    powers = np.arange(1, coefficients.shape[1])
    return coefficients[:, 1:] * powers[:, None] / h[:, None, None]
