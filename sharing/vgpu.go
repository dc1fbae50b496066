// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"regexp"
	"strconv"
	"strings"
)

// VGPUType is a type of virtual GPU, as the guest of a virtual machine sees it: A10-12Q is 12 GB of an A10.
type VGPUType struct {
	Name   string // "A10-12Q", without its prefix
	Board  string // the board's code in the name, "A10"; boards with one chip differ by a letter, as A100D
	Slices int    // of the MIG instance that backs it; 0 if time-sliced
	Memory Bytes  // its frame buffer, nominal
}

// A board's code may have several words: RTX6000-Ada, RTX Pro 6000 Blackwell DC. Types of less than a gigabyte are of
// boards that nobody computes on.
var vgpuName = regexp.MustCompile(`^(?:NVIDIA[- _]|GRID[- _])?([A-Z][A-Za-z0-9]*(?:[- _][A-Za-z0-9]+)*?)-` +
	`(?:([1-7])-)?([1-9]\d{0,2})[ABCQ](?:ME)?$`)

// ParseVGPUType reads the name of a vGPU type, as NVML and labels of a guest write it: "NVIDIA A10-12Q", "GRID-T4-8C",
// "A100D-1-10C". It returns false for the name of a board.
func ParseVGPUType(name string) (VGPUType, bool) {
	m := vgpuName.FindStringSubmatch(strings.TrimSpace(name))
	if m == nil {
		return VGPUType{}, false
	}
	gb, _ := strconv.Atoi(m[3])
	slices, _ := strconv.Atoi(m[2])
	rest := strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(name), "NVIDIA"), "GRID")
	return VGPUType{Name: strings.TrimLeft(rest, "-_ "), Board: m[1], Slices: slices, Memory: Bytes(gb) * GiB}, true
}
