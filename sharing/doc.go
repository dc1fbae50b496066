// SPDX-License-Identifier: Apache-2.0

// Package sharing describes how a GPU can be shared: the mechanisms, the isolation of each with its conditions, the
// abilities of each GPU, and plausible claims about sharing that fail in production.
//
//   - LookupGPU and GPUs: the GPU table.
//   - IsolationIn, Isolation: the isolation of a mechanism.
//   - Available, MPSClientLimit: the limits of hardware and driver.
//   - InfoFor, Delivers: facts about a mechanism.
//   - Traps; SourceByID; Citations, with which an output ends.
//
// # Sources
//
// A source is a document that anyone can open: a page, a repository at a commit, a paper, or a measurement in this
// repository. Its id is lower case: publisher-document, and -section where a document has several entries
// (nvidia-mps-guide, nvidia-mps-guide-limits, k8s-device-plugin). A paper is named by its system (miso-paper). Ids of
// our own measurements, computations and data start with cotenant- (cotenant-h200-colocation). cotenant-reading marks
// an inference from other sources, which the statement names.
//
// Everything here is data with a source; REPORT-2026-11.md compares it with widely read articles. Answers are
// three-valued: without a source they are unknown, never no and never zero. The package does no I/O, and all its
// functions are safe for concurrent use; the values they return are copies or must not be modified, as each says.
// It is stable: its API changes incompatibly only with a new major version.
package sharing
