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

// IsZero answers whether the version is unknown.
func (d Driver) IsZero() bool { return d == Driver{} }

// Compare returns -1, 0 or +1 as d is older than, equal to or newer than e. An
// unknown version is older than any other: ask IsZero first.
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

// CUDAVersion is a version of the CUDA driver interface, for example {13, 1}.
// The zero value means that the version is not known.
type CUDAVersion struct{ Major, Minor int }

func (v CUDAVersion) atLeast(w CUDAVersion) bool {
	return cmp.Or(cmp.Compare(v.Major, w.Major), cmp.Compare(v.Minor, w.Minor)) >= 0
}

// String formats the version: "13.1"; an unknown version is "unknown".
func (v CUDAVersion) String() string {
	if v == (CUDAVersion{}) {
		return "unknown"
	}
	return fmt.Sprintf("%d.%d", v.Major, v.Minor)
}

// MarshalText is String; an unknown version is empty.
func (v CUDAVersion) MarshalText() ([]byte, error) {
	if v == (CUDAVersion{}) {
		return []byte{}, nil
	}
	return []byte(v.String()), nil
}

// UnmarshalText reads "13.1" or "13"; empty text is an unknown version.
func (v *CUDAVersion) UnmarshalText(b []byte) error {
	parts, ok := parseVersion(strings.TrimSpace(string(b)), 2)
	if len(b) > 0 && (!ok || parts[0] == 0) {
		return fmt.Errorf("sharing: %q is not a CUDA version: write, for example, 13.1", problem.Clip(string(b)))
	}
	*v = CUDAVersion{parts[0], parts[1]}
	return nil
}

// cudaBranches lists the CUDA version of each branch of the driver, ordered by branch: the newest that it supports
// without a compatibility package. The rows come from the table of toolkit driver versions in the CUDA release notes,
// from 595 on from the names of the toolkit installers, which carry the driver they ship; 615 is that of the MPS
// documentation.
var cudaBranches = table[cudaBranch]("cuda.json")

type cudaBranch struct {
	Branch int // the driver's major version
	CUDA   CUDAVersion
	Source SourceID
}

// SupportsCUDA answers whether the driver supports CUDA version v. Branches without a row of their own are bounded
// by their neighbours, since a newer branch supports all versions of an older one; other answers are Unknown.
func (d Driver) SupportsCUDA(v CUDAVersion) Answer {
	if d.IsZero() || v == (CUDAVersion{}) {
		return AnswerUnknown
	}
	answer := AnswerUnknown
	for _, b := range cudaBranches() {
		if b.Branch <= d.Major && b.CUDA.atLeast(v) {
			return AnswerYes
		}
		if b.Branch >= d.Major && !b.CUDA.atLeast(v) {
			answer = AnswerNo
		}
	}
	return answer
}
