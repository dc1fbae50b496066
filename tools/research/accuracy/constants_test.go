package accuracy_test

import (
	_ "unsafe" // for linkname

	"github.com/cotenant/cotenant/decision/predict/costs"
)

// The variables of package predict that hold its constants, so that tests can give them other values.
var (
	//go:linkname alikeSteps github.com/cotenant/cotenant/decision/predict.alikeSteps
	alikeSteps float64
	//go:linkname betweenSeries github.com/cotenant/cotenant/decision/predict.betweenSeries
	betweenSeries float64
	//go:linkname betweenSteps github.com/cotenant/cotenant/decision/predict.betweenSteps
	betweenSteps float64
	//go:linkname boundaryTolerance github.com/cotenant/cotenant/decision/predict.boundaryTolerance
	boundaryTolerance float64
	//go:linkname busyPrefilling github.com/cotenant/cotenant/decision/predict.busyPrefilling
	busyPrefilling float64
	//go:linkname clientDelay github.com/cotenant/cotenant/decision/predict.clientDelay
	clientDelay float64
	//go:linkname decodeOfTPOT github.com/cotenant/cotenant/decision/predict.decodeOfTPOT
	decodeOfTPOT float64
	//go:linkname edgeDoubt github.com/cotenant/cotenant/decision/predict.edgeDoubt
	edgeDoubt float64
	//go:linkname edgeShare github.com/cotenant/cotenant/decision/predict.edgeShare
	edgeShare float64
	//go:linkname everyRun github.com/cotenant/cotenant/decision/predict.everyRun
	everyRun float64
	//go:linkname fillsGPU github.com/cotenant/cotenant/decision/predict.fillsGPU
	fillsGPU float64
	//go:linkname firstOfOther github.com/cotenant/cotenant/decision/predict.firstOfOther
	firstOfOther float64
	//go:linkname gapless github.com/cotenant/cotenant/decision/predict.gapless
	gapless float64
	//go:linkname gpmError github.com/cotenant/cotenant/decision/predict.gpmError
	gpmError float64
	//go:linkname hostError github.com/cotenant/cotenant/decision/predict.hostError
	hostError float64
	//go:linkname largerStep github.com/cotenant/cotenant/decision/predict.largerStep
	largerStep float64
	//go:linkname launchedBusy github.com/cotenant/cotenant/decision/predict.launchedBusy
	launchedBusy float64
	//go:linkname linkHalf github.com/cotenant/cotenant/decision/predict.linkHalf
	linkHalf float64
	//go:linkname loneError github.com/cotenant/cotenant/decision/predict.loneError
	loneError float64
	//go:linkname loneFirst github.com/cotenant/cotenant/decision/predict.loneFirst
	loneFirst float64
	//go:linkname maxSMShare github.com/cotenant/cotenant/decision/predict.maxSMShare
	maxSMShare float64
	//go:linkname moreTurns github.com/cotenant/cotenant/decision/predict.moreTurns
	moreTurns float64
	//go:linkname mostGaps github.com/cotenant/cotenant/decision/predict.mostGaps
	mostGaps float64
	//go:linkname mostMoved github.com/cotenant/cotenant/decision/predict.mostMoved
	mostMoved float64
	//go:linkname mostlyDecoding github.com/cotenant/cotenant/decision/predict.mostlyDecoding
	mostlyDecoding float64
	//go:linkname prefillError github.com/cotenant/cotenant/decision/predict.prefillError
	prefillError float64
	//go:linkname priorWeight github.com/cotenant/cotenant/decision/predict.priorWeight
	priorWeight float64
	//go:linkname seriesShare github.com/cotenant/cotenant/decision/predict.seriesShare
	seriesShare float64
	//go:linkname sharedCore github.com/cotenant/cotenant/decision/predict.sharedCore
	sharedCore float64
	//go:linkname slowerPace github.com/cotenant/cotenant/decision/predict.slowerPace
	slowerPace float64
	//go:linkname smFilling github.com/cotenant/cotenant/decision/predict.smFilling
	smFilling float64
	//go:linkname sparedStep github.com/cotenant/cotenant/decision/predict.sparedStep
	sparedStep float64
	//go:linkname stepJitter github.com/cotenant/cotenant/decision/predict.stepJitter
	stepJitter float64
	//go:linkname unseenModel github.com/cotenant/cotenant/decision/predict.unseenModel
	unseenModel float64
	//go:linkname unsureTurns github.com/cotenant/cotenant/decision/predict.unsureTurns
	unsureTurns float64
	//go:linkname usualBusy github.com/cotenant/cotenant/decision/predict.usualBusy
	usualBusy float64
	//go:linkname usualDecodeSM github.com/cotenant/cotenant/decision/predict.usualDecodeSM
	usualDecodeSM float64
	//go:linkname usualDoublings github.com/cotenant/cotenant/decision/predict.usualDoublings
	usualDoublings float64
	//go:linkname usualSMs github.com/cotenant/cotenant/decision/predict.usualSMs
	usualSMs float64
)

var (
	//go:linkname fewSeries github.com/cotenant/cotenant/decision/predict.fewSeries
	fewSeries int
	//go:linkname fewest github.com/cotenant/cotenant/decision/predict.fewest
	fewest int
	//go:linkname fewestRepeated github.com/cotenant/cotenant/decision/predict.fewestRepeated
	fewestRepeated int
	//go:linkname mostCopies github.com/cotenant/cotenant/decision/predict.mostCopies
	mostCopies int
)

var (
	//go:linkname lossTrials github.com/cotenant/cotenant/decision/predict.lossTrials
	lossTrials []float64
	//go:linkname queueTrials github.com/cotenant/cotenant/decision/predict.queueTrials
	queueTrials []float64
)

// tunable are constants that tests give other values, by their names in constants.json or in the code; one that stands
// in two places has a mark at the second. counts are whole numbers, and trials the values that are tried of the
// parameters that are fitted.
var tunable = map[string]*float64{
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
	"unseen_model":   &unseenModel,
	"between_series": &betweenSeries, "series_share": &seriesShare, "prior_weight": &priorWeight,
	"fills_gpu": &costs.Contention.FillsGPU, "slowest_speed": &costs.Contention.SlowestSpeed,
	"most_reading": &costs.Contention.MostReading, "capped_blocking": &costs.Contention.CappedBlocking,
	"capped_alone": &costs.Contention.CappedAlone, "capped_reading": &costs.Contention.CappedReading,
}

var counts = map[string]*int{"few_series": &fewSeries, "fewest": &fewest, "fewest_repeated": &fewestRepeated,
	"mostCopies": &mostCopies}

var trials = map[string]*[]float64{"slice_loss": &lossTrials, "queue_share": &queueTrials}
