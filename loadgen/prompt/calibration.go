package prompt

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/loadgen"
)

// Optional holds a value that may be missing; the zero Optional is missing. Get returns the value and whether it is
// there, Or the value or a fallback, IsZero whether it is missing; Equal compares two, String writes "-" for a
// missing one, and JSON null, or nothing with omitzero:
//
//	if v, ok := o.Get(); ok { use(v) } // or use(o.Or(0))
type Optional[T any] = optional.Value[T]

// WordCalibration relates words of made-up prompts to a server's prompt tokens. The
// zero value is one token a word and none beside.
type WordCalibration struct {
	TokensPerWord float64 // 0 means 1
	// Overhead is the number of tokens that a request has beside its words: the chat template's.
	Overhead float64
	// Error is the relative error on a third prompt that was not used for fitting;
	// missing when nothing was measured.
	Error Optional[float64]
}

// words is the number of words that make up tokens in a request, of whose overhead it bears the given share.
func (c WordCalibration) words(tokens int, share float64) int {
	per := c.TokensPerWord
	if per == 0 {
		per = 1
	}
	return max(int(math.Round((float64(tokens)-share*c.Overhead)/per)), 1)
}

func (c WordCalibration) check() error {
	var l problem.List
	l.If(!(c.TokensPerWord >= 0) || c.TokensPerWord > 100 || c.TokensPerWord != 0 && c.TokensPerWord < 0.01,
		"tokens_per_word", "use 0.01 to 100, or 0 for 1", "is %v", c.TokensPerWord)
	l.If(!(c.Overhead >= 0) || c.Overhead > maxTraceTokens, "overhead", "use 0 or more", "is %v", c.Overhead)
	return l.Err()
}

// ErrCalibration says that a server's token counts do not grow with the prompt.
var ErrCalibration = errors.New("loadgen: cannot calibrate prompt lengths")

// Calibrate sends three prompts of 64, 512 and 256 words through send, which returns the server's count of prompt
// tokens, fits the first two and checks the fit on the third. It needs no tokenizer.
func Calibrate(ctx context.Context,
	send func(ctx context.Context, p loadgen.Prompt) (promptTokens int, err error)) (WordCalibration, error) {
	const short, long, check = 64, 512, 256
	counts := map[int]float64{}
	for i, n := range []int{short, long, check} {
		var b strings.Builder
		appendWords(&b, rand.New(rand.NewPCG(0, uint64(i))), n)
		tokens, err := send(ctx, loadgen.Prompt{Text: b.String(), MaxTokens: 1})
		if err != nil {
			return WordCalibration{}, fmt.Errorf("%w: prompt of %d words: %w", ErrCalibration, n, err)
		}
		counts[n] = float64(tokens)
	}
	c := WordCalibration{TokensPerWord: (counts[long] - counts[short]) / (long - short)}
	c.Overhead = max(counts[short]-short*c.TokensPerWord, 0)
	if err := c.check(); err != nil || c.TokensPerWord == 0 || counts[check] == 0 {
		return WordCalibration{}, fmt.Errorf("%w: %d, %d and %d words are %v, %v and %v tokens to the server",
			ErrCalibration, short, check, long, counts[short], counts[check], counts[long])
	}
	e := (c.TokensPerWord*check + c.Overhead - counts[check]) / counts[check]
	c.Error = optional.Of(e)
	return c, nil
}
