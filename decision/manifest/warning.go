package manifest

import "github.com/cotenant/cotenant/sharing"

// Codes of the warnings that Build gives besides those about configuration
// documents, which stand in package sharing.
const (
	// no delivery that was asked for can deliver the mechanism
	WarnNotDelivered sharing.WarningCode = "not-delivered"
	// the plugin's equal share is less than the workload's
	WarnEqualShares       sharing.WarningCode = "equal-shares"
	WarnPerProcess        sharing.WarningCode = "limit-per-process"   // MPS limits processes, not containers
	WarnFractionUnknown   sharing.WarningCode = "fraction-unknown"    // the memory fraction cannot be computed
	WarnNoMemoryLimit     sharing.WarningCode = "no-memory-limit"     // one tenant can take all memory
	WarnCUDAGraphs        sharing.WarningCode = "cuda-graphs"         // HAMi's compute limit does not see graphs
	WarnComputeNotLimited sharing.WarningCode = "compute-not-limited" // the mechanism has no compute limit
	// a node's remaining GPUs can serve no other mechanism
	WarnPartialNode     sharing.WarningCode = "partial-node"
	WarnNodeSizeUnknown sharing.WarningCode = "node-size-unknown" // layouts cannot be divided into nodes
	// a cluster-wide MIG strategy would override MPS nodes
	WarnMIGStrategyEnv  sharing.WarningCode = "mig-strategy-env"
	WarnClaimNamespaces sharing.WarningCode = "claim-namespaces" // claims do not reach across namespaces
	WarnClaimsLeftOut   sharing.WarningCode = "claims-left-out"  // too many devices for a named claim each
	WarnNotEnforced     sharing.WarningCode = "not-enforced"     // the scheduler places and enforces nothing
	WarnUnplacedTenants sharing.WarningCode = "unplaced-tenants" // more pods than slots
)
