// SPDX-License-Identifier: Apache-2.0

// Package cotenant holds tests in which NVIDIA's own code reads the files that package manifest writes. The module's
// path lies below the device plugin's, whose resource manager is internal to it.
package cotenant
