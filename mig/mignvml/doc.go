// Package mignvml is the NVML adapter of package mig: real GPUs as mig.Device.
//
// Open loads NVML; it needs linux and cgo, and elsewhere fails with an error that says so. Reading (models, modes,
// instances) needs no privileges and no MIG mode; changes need root or the MIG configuration capability. What was
// verified on hardware is reading, on an H200; the errors of changes are mapped from NVML's documentation.
//
// It is stable: its API changes incompatibly only with a new major version.
package mignvml
