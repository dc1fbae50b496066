// Package sharing describes how a GPU can be shared: the mechanisms, what each
// isolates and under which conditions, what each GPU can do, and the claims
// about sharing that look right and fail in production.
//
//   - LookupGPU and GPUs: the GPU table.
//   - IsolationIn, Isolation, Properties: what a mechanism isolates, by the
//     primary reading or by the popular tables; Disagreements: where they part.
//   - Available, MPSClientLimit, StaticSMPartitions: what hardware and driver allow.
//   - InfoFor, Delivers, ResearchSystems: what there is to say of a mechanism.
//   - Compare: two mechanisms side by side.
//   - Traps, Sources.
//
// Everything in it is data with a source. Answers are three-valued: what no
// source says is unknown, never no and never zero. The package does no I/O,
// and all its functions are safe for concurrent use; the values they return
// are copies or must not be modified, as each says.
package sharing
