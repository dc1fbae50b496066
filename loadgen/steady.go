package loadgen

// SteadyState says whether the window looks like one state of the system.
type SteadyState struct {
	// Verdict is "yes", "no" or "unknown" (too short to tell).
	Verdict string `json:"verdict"`
	Reason  string `json:"reason"`
	// TokenRateDrift and TTFTDrift are the change of the window's last third
	// against its first, as a fraction; absent when unknown.
	TokenRateDrift *float64 `json:"token_rate_drift,omitempty"`
	TTFTDrift      *float64 `json:"ttft_drift,omitempty"`
}
