package telemetry

import (
	"cmp"
	"slices"
)

// eachOnce returns a list with each process of a GPU instance once. Of one that is listed several times, say as a
// compute and as a graphics client, the largest figures count: each is of the whole process. A list without such
// processes is returned as it is.
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

func once[T any](list []T, same func(a, b *T) bool, merge func(into, more *T)) []T {
	first := func(in []T, x *T) int {
		for i := range in {
			if same(&in[i], x) {
				return i
			}
		}
		return -1
	}
	for i := range list {
		if first(list[:i], &list[i]) < 0 {
			continue
		}
		out := slices.Clone(list[:i]) // the list is the reader's
		for ; i < len(list); i++ {
			if j := first(out, &list[i]); j >= 0 {
				merge(&out[j], &list[i])
			} else {
				out = append(out, list[i])
			}
		}
		return out
	}
	return list
}

func larger[T cmp.Ordered](a, b Optional[T]) Optional[T] {
	if v, ok := a.Get(); ok && v >= b.Or(v) {
		return a
	}
	return b
}
