package telemetry

import (
	"cmp"
	"slices"
)

// eachOnce returns a list with each process of a GPU instance once. Of one that is listed several times, say as a
// compute and as a graphics client, the largest figures count: each is of the whole process.
func eachOnce(list []Process) []Process {
	same := func(a, b *Process) bool { return a.PID == b.PID && a.GPUInstance == b.GPUInstance }
	return once(list, same, func(into, more *Process) {
		into.Name = cmp.Or(into.Name, more.Name)
		into.Memory = larger(into.Memory, more.Memory)
		into.SMUtilPercent = larger(into.SMUtilPercent, more.SMUtilPercent)
	})
}

// eachInstanceOnce returns a list with each MIG instance once, the first of several.
func eachInstanceOnce(list []Instance) []Instance {
	return once(list, func(a, b *Instance) bool { return a.ID == b.ID }, func(_, _ *Instance) {})
}

func once[T any](list []T, same func(a, b *T) bool, merge func(into, more *T)) (out []T) {
	for i := range list {
		at := slices.IndexFunc(out, func(x T) bool { return same(&x, &list[i]) })
		if at < 0 {
			out = append(out, list[i])
		} else {
			merge(&out[at], &list[i])
		}
	}
	return out
}

func larger[T cmp.Ordered](a, b Optional[T]) Optional[T] {
	if v, ok := a.Get(); ok && v >= b.Or(v) {
		return a
	}
	return b
}
