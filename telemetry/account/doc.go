// Package account keeps the accounts of a node's GPUs from telemetry: who used which GPU, for how long, with what
// energy and at what price. It is experimental: its API may change between minor versions.
//
// An Accountant is a telemetry.Sink. It finds the pod of each process (telemetry/container), divides each window of
// a GPU's time by what the mechanism lets anybody see, and posts the parts to a ledger (telemetry/ledger). Holders
// asks which pod was given which GPU, and the MPS daemon for its clients. Servers reads the metrics pages of model
// servers: the tokens that they generate narrow what MPS hides.
//
// Store what Accountant.Changes returns before you show its view: then a kill at any moment takes no counter back.
package account
