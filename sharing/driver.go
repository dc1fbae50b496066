package sharing

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Driver is the version of an NVIDIA driver, as NVML prints it: 580.65.06 is
// {580, 65, 6}. The zero value means that the version is not known.
type Driver struct{ Major, Minor, Patch int }

// maxVersionPart bounds each part of a version: real ones have three digits.
const maxVersionPart = 9999

// ParseDriver reads a driver version: "580.65.06", "580.88", "580", or a
// branch name "R580". Anything else, the empty string included, is an error.
func ParseDriver(s string) (Driver, error) {
	t := strings.TrimSpace(s)
	if len(t) > 1 && (t[0] == 'R' || t[0] == 'r') {
		t = t[1:]
	}
	parts, ok := parseVersion(t, 3)
	if !ok || parts[0] == 0 {
		return Driver{}, fmt.Errorf("sharing: %q is not a driver version: write it as nvidia-smi does, for example 580.65.06", clip(s))
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
		n, err := strconv.Atoi(f)
		if err != nil || n > maxVersionPart {
			return parts, false
		}
		parts[i] = n
	}
	return parts, true
}

func clip(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
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

// MarshalText writes what String returns; an unknown version is empty.
func (d Driver) MarshalText() ([]byte, error) {
	if d.IsZero() {
		return []byte{}, nil
	}
	return []byte(d.String()), nil
}

// UnmarshalText reads what ParseDriver reads; empty text is an unknown version.
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

// ParseCUDAVersion reads "13.1" or "13".
func ParseCUDAVersion(s string) (CUDAVersion, error) {
	parts, ok := parseVersion(strings.TrimSpace(s), 2)
	if !ok || parts[0] == 0 {
		return CUDAVersion{}, fmt.Errorf("sharing: %q is not a CUDA version: write, for example, 13.1", clip(s))
	}
	return CUDAVersion{parts[0], parts[1]}, nil
}

// IsZero answers whether the version is unknown.
func (v CUDAVersion) IsZero() bool { return v == CUDAVersion{} }

// Compare returns -1, 0 or +1 as v is older than, equal to or newer than w.
func (v CUDAVersion) Compare(w CUDAVersion) int {
	return cmp.Or(cmp.Compare(v.Major, w.Major), cmp.Compare(v.Minor, w.Minor))
}

// String formats the version: "13.1"; an unknown version is "unknown".
func (v CUDAVersion) String() string {
	if v.IsZero() {
		return "unknown"
	}
	return fmt.Sprintf("%d.%d", v.Major, v.Minor)
}

// MarshalText writes what String returns; an unknown version is empty.
func (v CUDAVersion) MarshalText() ([]byte, error) {
	if v.IsZero() {
		return []byte{}, nil
	}
	return []byte(v.String()), nil
}

// UnmarshalText reads what ParseCUDAVersion reads; empty text is unknown.
func (v *CUDAVersion) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*v = CUDAVersion{}
		return nil
	}
	w, err := ParseCUDAVersion(string(b))
	if err == nil {
		*v = w
	}
	return err
}

// CUDABranch says which CUDA version a branch of the driver brings.
type CUDABranch struct {
	Branch int         // the driver's major version, for example 580
	First  Driver      // the oldest Linux driver of the branch that brings CUDA; zero if no source gives it
	CUDA   CUDAVersion // the newest CUDA version the branch supports without a compatibility package
	Source SourceID
}

// cudaBranches is ordered by branch. The rows come from the table of toolkit
// driver versions in the CUDA release notes, and from 595 on from the names of
// the toolkit installers, which carry the driver they ship; 615 is that of the
// MPS documentation. For CUDA 12.8 the two differ, and the release notes stand:
// its installer ships 570.86.10.
var cudaBranches = []CUDABranch{
	{525, Driver{525, 60, 13}, CUDAVersion{12, 0}, "nvidia-cuda-release-notes"},
	{530, Driver{530, 30, 2}, CUDAVersion{12, 1}, "nvidia-cuda-release-notes"},
	{535, Driver{535, 54, 3}, CUDAVersion{12, 2}, "nvidia-cuda-release-notes"},
	{545, Driver{545, 23, 6}, CUDAVersion{12, 3}, "nvidia-cuda-release-notes"},
	{550, Driver{550, 54, 14}, CUDAVersion{12, 4}, "nvidia-cuda-release-notes"},
	{555, Driver{555, 42, 2}, CUDAVersion{12, 5}, "nvidia-cuda-release-notes"},
	{560, Driver{560, 28, 3}, CUDAVersion{12, 6}, "nvidia-cuda-release-notes"},
	{570, Driver{570, 26, 0}, CUDAVersion{12, 8}, "nvidia-cuda-release-notes"},
	{575, Driver{575, 51, 3}, CUDAVersion{12, 9}, "nvidia-cuda-release-notes"},
	{580, Driver{580, 65, 6}, CUDAVersion{13, 0}, "nvidia-cuda-release-notes"},
	{590, Driver{590, 44, 1}, CUDAVersion{13, 1}, "nvidia-cuda-release-notes"},
	{595, Driver{595, 45, 4}, CUDAVersion{13, 2}, "nvidia-cuda-installers"},
	{610, Driver{610, 43, 2}, CUDAVersion{13, 3}, "nvidia-cuda-installers"},
	{615, Driver{}, CUDAVersion{13, 4}, "nvidia-mps-guide-v3"},
}

// CUDABranches lists the driver branches whose CUDA version is known, by
// branch. The slice is the caller's.
func CUDABranches() []CUDABranch { return slices.Clone(cudaBranches) }

// CUDA returns the newest CUDA version the driver's branch supports, and
// whether it is known: only branches with a source are (see CUDABranches).
func (d Driver) CUDA() (CUDAVersion, bool) {
	for _, b := range cudaBranches {
		if b.Branch == d.Major {
			return b.CUDA, true
		}
	}
	return CUDAVersion{}, false
}

// SupportsCUDA answers whether the driver supports CUDA version v. Branches
// without a row of their own are bounded by their neighbours, since a newer
// branch supports what an older one does; what that cannot settle is Unknown.
func (d Driver) SupportsCUDA(v CUDAVersion) Answer {
	if d.IsZero() || v.IsZero() {
		return AnswerUnknown
	}
	answer := AnswerUnknown
	for _, b := range cudaBranches {
		if b.Branch <= d.Major && b.CUDA.Compare(v) >= 0 {
			return AnswerYes
		}
		if b.Branch >= d.Major && b.CUDA.Compare(v) < 0 {
			answer = AnswerNo
		}
	}
	return answer
}
