//go:build !linux

package loadgen

func newPrecisePacer() pacer { return nil }
