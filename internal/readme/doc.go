// SPDX-License-Identifier: Apache-2.0

// Package readme holds the README to its word: its tests run the program and the commands that it prints.
package readme
