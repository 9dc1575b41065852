"""Exact dynamic programming: optimal values, the value of a policy, and the pairs that it visits.

A policy is an array of probabilities [..., T, S, A]; leading axes are evaluated at once.
"""

from typing import NamedTuple

import numpy as np

from utds.errors import DataError
from utds.linear.models import Array, LinearMDP


class Plan(NamedTuple):
    """What exact value iteration finds."""

    policy: Array  # [T, S, A] greedy, one-hot; ties go to the first action
    q: Array  # [T, S, A] Q*
    values: Array  # [T + 1, S] V*, zero at the end


def plan(mdp: LinearMDP) -> Plan:
    """The optimal policy π* and its values, by backward induction."""
    q = np.empty((mdp.horizon, mdp.states, mdp.actions))
    values = np.zeros((mdp.horizon + 1, mdp.states))
    for t in reversed(range(mdp.horizon)):
        q[t] = mdp.backup(values[t + 1])
        values[t] = q[t].max(axis=-1)
    return Plan(greedy(q), q, values)


def greedy(q: Array) -> Array:
    """One-hot probabilities of the best action of `q` [..., A]; the first one on ties."""
    return np.eye(q.shape[-1])[q.argmax(axis=-1)]


def evaluate(mdp: LinearMDP, policy: Array) -> Array:
    """V^π [..., T + 1, S] of `policy` [..., T, S, A]."""
    _check_policy(mdp, policy)
    values = np.zeros((*policy.shape[:-3], mdp.horizon + 1, mdp.states))
    for t in reversed(range(mdp.horizon)):
        values[..., t, :] = (policy[..., t, :, :] * mdp.backup(values[..., t + 1, :])).sum(axis=-1)
    return values


def occupancy(mdp: LinearMDP, policy: Array) -> Array:
    """Probability [..., T, S, A] that `policy` is at pair (s, a) in step t."""
    _check_policy(mdp, policy)
    visited = np.empty(policy.shape)
    state = np.broadcast_to(mdp.initial, (*policy.shape[:-3], mdp.states))
    for t in range(mdp.horizon):
        visited[..., t, :, :] = state[..., None] * policy[..., t, :, :]
        state = np.einsum("...ij,ijk->...k", visited[..., t, :, :], mdp.transitions)
    return visited


def performance(mdp: LinearMDP, policy: Array) -> Array:
    """Expected return [...] of `policy` from the initial distribution."""
    return evaluate(mdp, policy)[..., 0, :] @ mdp.initial


def _check_policy(mdp: LinearMDP, policy: Array) -> None:
    if policy.shape[-3:] != (mdp.horizon, mdp.states, mdp.actions):
        raise DataError(
            f"the policy has shape {policy.shape}; its last axes must be (T, S, A) = "
            f"{(mdp.horizon, mdp.states, mdp.actions)}"
        )
