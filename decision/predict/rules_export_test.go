package predict

import "github.com/cotenant/cotenant/decision/predict/costs"

// Constants are those of rules that tests leave out, by their names in constants.json.
var Constants = map[string]*float64{
	"step_jitter": &stepJitter, "gpm_error": &gpmError, "most_moved": &mostMoved, "unsure_turns": &unsureTurns,
	"alike_steps": &alikeSteps, "larger_step": &largerStep, "edge_share": &edgeShare, "gapless": &gapless, "shared_core": &sharedCore, "between_steps": &betweenSteps,
	"launched_busy": &launchedBusy, "launched_growth": &launchedGrowth, "other_first": &otherFirst, "sm_filling": &smFilling,
	"spared_step": &sparedStep, "other_prompts": &otherPrompts, "max_sm_share": &maxSMShare,
	"fills_gpu": &costs.Contention.FillsGPU, "slowest_speed": &costs.Contention.SlowestSpeed,
}

// Trials are the values that are tried of the parameters that are fitted, by their names.
var Trials = map[string]*[]float64{"slice_loss": &lossTrials, "queue_share": &queueTrials}
