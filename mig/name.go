// SPDX-License-Identifier: Apache-2.0

package mig

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
)

// Errors that calls of this package wrap; test for them with errors.Is.
var (
	ErrAmbiguousGPU = errors.New("mig: ambiguous GPU") // several GPUs have the name or PCI id
	// ErrPlacementsUnknown is returned if the catalogue lacks the placements of a GPU's profiles, so that planning is not
	// possible offline.
	ErrPlacementsUnknown = errors.New("mig: placements unknown")
	// ErrInfeasible is returned for instances that don't fit on one GPU together.
	ErrInfeasible = errors.New("mig: infeasible")
	// ErrInvalid is returned for input that breaks a rule; the error names every violation.
	ErrInvalid = errors.New("mig: invalid input")
)

// Name is a parsed profile name: "1g.10gb", "1c.3g.40gb", "1g.10gb+me", "1g.24gb-me". A name is not a key: it means
// another shape on another GPU, and names change with the driver; resolve it with [Model.Profile].
type Name struct {
	// ComputeSlices is C, the slices of the compute instance. If it equals Slices, the compute instance spans its GPU
	// instance and the name omits it.
	ComputeSlices int
	Slices        int // G, the compute slices of the GPU instance
	// GB is the nominal memory in the name. Less can be allocated.
	GB int
	// Attributes lists the profile's additions ("me", "me.all", "gfx"), and
	// Without its omissions ("me" in "1g.24gb-me"). Only one of them is set.
	Attributes, Without []string
}

const maxNameLen = 128

var nameForm = regexp.MustCompile(`^(?:MIG )?(?:([1-9][0-9]{0,2})c\.)?([1-9][0-9]{0,2})g\.(0|[1-9][0-9]{0,2})gb` +
	`(?:([+-])(` + nameAttribute + `(?:,` + nameAttribute + `)*))?$`)

const nameAttribute = `[A-Za-z](?:[A-Za-z0-9.]*[A-Za-z0-9])?`

// ParseName reads a profile name: [<C>c.]<G>g.<GB>gb followed by +attr or -attr, several separated by commas. The
// prefix "MIG ", which nvidia-smi prints, is allowed. C must not exceed G.
func ParseName(s string) (Name, error) {
	bad := func(why string) (Name, error) {
		return Name{}, invalid(fmt.Errorf("%q is not a MIG profile name: %s", problem.Clip(s), why))
	}
	m := nameForm.FindStringSubmatch(s)
	if m == nil || len(s) > maxNameLen {
		return bad(`write it like "1g.10gb", "1c.3g.40gb" or "1g.10gb+me"`)
	}
	n := Name{ComputeSlices: number(m[1]), Slices: number(m[2]), GB: number(m[3])}
	n.ComputeSlices = cmp.Or(n.ComputeSlices, n.Slices)
	if n.ComputeSlices > n.Slices {
		return bad("a compute instance can't have more slices than its GPU instance")
	}
	if m[4] == "" {
		return n, nil
	}
	list := strings.Split(m[5], ",")
	for i, a := range list {
		if slices.Contains(list[:i], a) {
			return bad("attribute " + a + " is given twice")
		}
	}
	if m[4] == "+" {
		n.Attributes = list
	} else {
		n.Without = list
	}
	return n, nil
}

// number reads the digits that a form found; none are 0.
func number(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}

// String writes the name in its canonical form, which ParseName reads.
func (n Name) String() string {
	var b strings.Builder
	if n.ComputeSlices != 0 && n.ComputeSlices != n.Slices {
		fmt.Fprintf(&b, "%dc.", n.ComputeSlices)
	}
	fmt.Fprintf(&b, "%dg.%dgb", n.Slices, n.GB)
	if len(n.Attributes) > 0 {
		b.WriteString("+" + strings.Join(n.Attributes, ","))
	}
	if len(n.Without) > 0 {
		b.WriteString("-" + strings.Join(n.Without, ","))
	}
	return b.String()
}

// gpuInstance returns the name of the GPU instance that the device is in: "3g.40gb" for "1c.3g.40gb".
func (n Name) gpuInstance() Name {
	n.ComputeSlices = n.Slices
	return n
}

const (
	resourceDomain = "nvidia.com/"
	resourcePrefix = "mig-"
)

// ResourceName returns the Kubernetes extended resource that the NVIDIA device plugin offers for a profile name:
// "nvidia.com/mig-1g.10gb.me" for "1g.10gb+me".
func ResourceName(profile string) (string, error) {
	n, err := ParseName(profile)
	if err != nil {
		return "", err
	}
	if len(n.Attributes) > 1 || len(n.Without) > 1 {
		return "", invalid(fmt.Errorf("%q: a resource name holds one attribute", problem.Clip(profile)))
	}
	return resourceDomain + resourcePrefix + strings.ReplaceAll(n.String(), "+", "."), nil
}

// ParseResourceName reads a resource name that ResourceName writes, with or without the "nvidia.com/".
func ParseResourceName(s string) (Name, error) {
	bad := func(why string) (Name, error) {
		return Name{}, invalid(fmt.Errorf("%q is not a MIG resource name: %s", problem.Clip(s), why))
	}
	part, ok := strings.CutPrefix(strings.TrimPrefix(s, resourceDomain), resourcePrefix)
	if !ok {
		return bad(`write it like "nvidia.com/mig-1g.10gb"`)
	}
	if strings.ContainsAny(part, "+, ") {
		return bad(`a resource name writes "." for "+"`)
	}
	if i := strings.Index(part, "gb."); i >= 0 {
		part = part[:i+2] + "+" + part[i+3:]
	}
	n, err := ParseName(part)
	if err != nil {
		return bad(`write it like "nvidia.com/mig-1g.10gb" or "nvidia.com/mig-1g.10gb.me"`)
	}
	return n, nil
}

// invalid turns an error about an input into an ErrInvalid. A nil error stays nil.
func invalid(err error) error { return problem.Input("mig: ", ErrInvalid, err) }
