package predict

import (
	"github.com/cotenant/cotenant/decision/predict/costs"
)

// Rules are constants that tests give other values, by their names in constants.json or in the code; one that stands
// in two places has a mark at the second. Counts are whole numbers.
var Rules = map[string]*float64{
	"step_jitter": &stepJitter, "gpm_error": &gpmError, "host_error": &hostError, "prefill_error": &prefillError,
	"most_moved": &mostMoved, "moreTurns": &moreTurns, "unsure_turns": &unsureTurns, "boundaryTolerance": &boundaryTolerance,
	"alike_steps": &alikeSteps, "larger_step": &largerStep, "edge_share": &edgeShare, "edge_doubt": &edgeDoubt,
	"gapless": &gapless, "shared_core": &sharedCore, "between_steps": &betweenSteps,
	"launched_busy": &launchedBusy, "mostly_decoding": &mostlyDecoding,
	"busy_prefilling": &busyPrefilling, "most_gaps": &mostGaps, "usual_busy": &usualBusy, "usual_sms": &usualSMs,
	"lone_error": &loneError, "lone_first": &loneFirst,
	"first_of_other": &firstOfOther, "slowerPace": &slowerPace, "everyRun": &everyRun, "client_delay": &clientDelay,
	"decode_of_tpot": &decodeOfTPOT, "sm_filling": &smFilling, "link_half": &linkHalf, "fills_gpu'": &fillsGPU,
	"spared_step": &sparedStep, "max_sm_share": &maxSMShare,
	"sm_decoding": &usualDecodeSM, "usual_doublings": &usualDoublings,
	"unseen_model": &unseenModel, "slow_unsure": &slowUnsure,
	"between_series": &betweenSeries, "series_share": &seriesShare, "prior_weight": &priorWeight,
	"fills_gpu": &costs.Contention.FillsGPU, "slowest_speed": &costs.Contention.SlowestSpeed,
	"most_reading": &costs.Contention.MostReading, "capped_blocking": &costs.Contention.CappedBlocking,
	"capped_alone": &costs.Contention.CappedAlone, "capped_reading": &costs.Contention.CappedReading,
}

var Counts = map[string]*int{"few_series": &fewSeries, "fewest": &fewest, "fewest_repeated": &fewestRepeated,
	"mostCopies": &mostCopies}

// Trials are the values that are tried of the parameters that are fitted, by their names.
var Trials = map[string]*[]float64{"slice_loss": &lossTrials, "queue_share": &queueTrials}
