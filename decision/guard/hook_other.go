// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package guard

import "os/exec"

// group does nothing: there are no process groups.
func group(*exec.Cmd) {}

// ended describes a time-out's effect.
const ended = "it was ended, its children were not"
