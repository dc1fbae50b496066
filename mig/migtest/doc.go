// SPDX-License-Identifier: Apache-2.0

// Package migtest has a simulated GPU for tests of code that partitions GPUs, in the manner of net/http/httptest. It is
// built from the catalogue of package mig and is as strict as the hardware: only placements that the profile has, no
// overlap, no more engines than the GPU has, compute instances that fit; ids that do not reveal the placement; MIG mode
// that stays pending until a reset on Ampere; instances and GPUs that are in use. Any call can be made to fail, before
// or after its effect.
//
// All its figures are simulated, not measured. It is stable: its API changes incompatibly only with a new major
// version.
package migtest
