// SPDX-License-Identifier: Apache-2.0

// Package browser holds the programs' pages to what a reader needs, in a headless Chromium: go test -C tools -tags
// browser ./browser. The tests make the pages with the programs themselves. axe-core 4.14.1 (testdata/axe.min.js, from
// npm, its licence beside it) judges contrast and names.
package browser
