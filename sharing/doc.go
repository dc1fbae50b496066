// Package sharing describes how a GPU can be shared: the mechanisms, what each isolates and under which conditions,
// what each GPU can do, and the claims about sharing that look right and fail in production.
//
//   - LookupGPU and GPUs: the GPU table.
//   - IsolationIn, Isolation, Properties: what a mechanism isolates.
//   - Available, MPSClientLimit: what hardware and driver allow.
//   - InfoFor, Delivers: what there is to say of a mechanism.
//   - Compare: two mechanisms side by side.
//   - Traps, Sources; Citations, with which an output ends.
//
// # Sources
//
// A source is something that a stranger can open: a page, a repository at a commit, a paper, or a measurement of ours
// that lies in this repository. Its id is lower case and says who published what: publisher-document, and -section
// where a document has several entries (nvidia-mps-guide, nvidia-mps-guide-limits, k8s-device-plugin). A paper is
// named by its system (miso-paper). What is ours starts with cotenant-: measurements, computations and data
// (cotenant-h200-colocation), and cotenant-reading, which stands where no source says a thing in so many words; the
// statement then says what it is inferred from.
//
// What widely read articles print instead, and where they part from this package,
// stands in REPORT-2026-11.md beside it.
//
// Everything in it is data with a source. Answers are three-valued: what no source says is unknown, never no and
// never zero. The package does no I/O, and all its functions are safe for concurrent use; the values they return
// are copies or must not be modified, as each says.
//
// It is stable: its API changes incompatibly only with a new major version.
package sharing
