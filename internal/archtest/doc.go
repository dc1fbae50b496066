// SPDX-License-Identifier: Apache-2.0

// Package archtest tests the module's import rules (see CONTRIBUTING.md), which are data of the tests.
package archtest
