// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
)

// Driver is the version of an NVIDIA driver, as NVML prints it: 580.65.06 is
// {580, 65, 6}. The zero value means that the version is not known.
type Driver struct{ Major, Minor, Patch int }

// ParseDriver reads a driver version: "580.65.06", "580.88", "580", or a
// branch name "R580". Anything else, the empty string included, is an error.
func ParseDriver(s string) (Driver, error) {
	t := strings.TrimSpace(s)
	if len(t) > 1 && (t[0] == 'R' || t[0] == 'r') {
		t = t[1:]
	}
	parts, ok := parseVersion(t, 3)
	if !ok || parts[0] == 0 {
		return Driver{}, fmt.Errorf("sharing: %q is not a driver version: write it as nvidia-smi does, for example 580.65.06",
			problem.Clip(s))
	}
	return Driver{parts[0], parts[1], parts[2]}, nil
}

func parseVersion(s string, most int) (parts [3]int, ok bool) {
	fields := strings.SplitN(s, ".", most+1)
	if len(fields) > most {
		return parts, false
	}
	for i, f := range fields {
		if f == "" || len(f) > 4 || strings.Trim(f, "0123456789") != "" {
			return parts, false
		}
		parts[i], _ = strconv.Atoi(f)
	}
	return parts, true
}

// IsZero reports whether the version is unknown.
func (d Driver) IsZero() bool { return d == Driver{} }

// Compare returns -1, 0 or +1 as d is older than, equal to or newer than e. An unknown version is older than any other,
// so check IsZero first.
func (d Driver) Compare(e Driver) int {
	return cmp.Or(cmp.Compare(d.Major, e.Major), cmp.Compare(d.Minor, e.Minor), cmp.Compare(d.Patch, e.Patch))
}

// String formats the version as NVML does, without trailing parts that are
// zero: "580.65.06", "580.88", "610"; an unknown version is "unknown".
func (d Driver) String() string {
	switch {
	case d.IsZero():
		return "unknown"
	case d.Patch != 0:
		return fmt.Sprintf("%d.%02d.%02d", d.Major, d.Minor, d.Patch)
	case d.Minor != 0:
		return fmt.Sprintf("%d.%02d", d.Major, d.Minor)
	}
	return strconv.Itoa(d.Major)
}

// MarshalText is String; an unknown version is empty.
func (d Driver) MarshalText() ([]byte, error) {
	if d.IsZero() {
		return []byte{}, nil
	}
	return []byte(d.String()), nil
}

// UnmarshalText is ParseDriver; empty text is an unknown version.
func (d *Driver) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*d = Driver{}
		return nil
	}
	v, err := ParseDriver(string(b))
	if err == nil {
		*d = v
	}
	return err
}

// atLeast answers whether the driver is at least lowest.
func (d Driver) atLeast(lowest Driver) Answer {
	if d.IsZero() {
		return AnswerUnknown
	}
	return AnswerOf(d.Compare(lowest) >= 0)
}
