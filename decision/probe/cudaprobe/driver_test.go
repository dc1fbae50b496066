// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package cudaprobe

import "testing"

func TestVersionOf(t *testing.T) {
	for file, want := range map[string]string{
		"libcuda.so.580.159.04": "580.159.04", "libcuda.so.450.80": "450.80",
		"libcuda.so.1": "", "libcuda.so.1.1": "", "libcuda.so": "", "other.so.580.1": "",
	} {
		if got := versionOf(file); got != want {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
}
