// SPDX-License-Identifier: Apache-2.0

// Package readme tests the README: it runs the README's program and commands.
package readme
