// SPDX-License-Identifier: Apache-2.0

// Package judge holds decisions to simulated worlds. It draws random fleets (fleets.yaml), decides each from what
// its users would state, and simulates the outcome event by event in a world that the decider does not see
// (worlds.yaml), one in ten of them outside the published spreads. Beside the decision stand the rules of thumb
// that people follow, and the cheapest arrangement that could be shown to keep the objectives, found by search over
// all arrangements in fleets that are small enough.
//
// Everything is simulated: worlds and decider are of one author, and the sources of
// their figures stand in the two files.
// Experimental: its API may change.
package judge
