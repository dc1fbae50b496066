//go:build !unix

package guard

import "os/exec"

// group does nothing: there are no process groups.
func group(*exec.Cmd) {}

// ended says what a time-out ends.
const ended = "it was ended, its children were not"
