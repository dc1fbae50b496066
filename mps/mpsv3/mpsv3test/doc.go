// Package mpsv3test is a fake MPS control daemon that speaks protocol v3, for
// tests: the fake of package mpstest with the commands of NVIDIA's
// documentation. No v3 daemon has been recorded, so nothing holds it to one.
package mpsv3test
