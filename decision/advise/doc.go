// Package advise watches a cluster over time: at each look it plans anew (package migrate), keeps what it saw as a
// dated JSON file in a folder, and reports what changed since the last look, what of a plan that stood was not carried
// out or came otherwise, which unknown was settled, and what it would do now. It changes nothing in the cluster. A
// proposal stands once it, or what could still be taken of it, has been as good as the best at every look for as long
// as the patience that is asked for, so that a load that comes and goes moves nobody. Replicas that wait for a device
// get one that stands free without patience.
//
// Experimental: its API may change.
package advise
