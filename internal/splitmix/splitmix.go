// SPDX-License-Identifier: Apache-2.0

// Package splitmix mixes the bits of numbers by SplitMix64 (G. Steele, D. Lea and C. Flood, OOPSLA 2014).
package splitmix

// Gamma is the odd number nearest to 2^64 over the golden ratio.
const Gamma = 0x9e3779b97f4a7c15

// Finish is the finalizer: each bit of x changes about half of the bits.
func Finish(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Next is the first number of the generator with the seed x.
func Next(x uint64) uint64 { return Finish(x + Gamma) }
