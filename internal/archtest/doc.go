// SPDX-License-Identifier: Apache-2.0

// Package archtest holds the module to its import rules (see CONTRIBUTING.md), which its tests have as data.
package archtest
