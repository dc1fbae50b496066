// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/container"
)

// TestDraws divides windows of ten seconds of two time-sliced tenants. A simulated driver takes five samples of the
// GPU's utilization a second and charges each to the one process that runs at its instant, as an H100's seems to (driver
// 580). At any ratio the attribution is unbiased, within 5 points after a minute nearly always and after six always, and
// the bounds hold the work of a window as often as two standard deviations do.
func TestDraws(t *testing.T) {
	const perSecond, window, runs = 5, 10, 300
	pods := []container.Pod{{Name: "a"}, {Name: "b"}}
	for _, work := range [][2]float64{{0.25, 0.25}, {0.35, 0.12}, {0.12, 0.35}, {0.04, 0.6}, {0.5, 0.43}} {
		t.Run(fmt.Sprint(work), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			minutes, far, held, windows, worst := 0, 0, 0, 0, 0.0
			sum, n := [2]float64{}, 0.0
			for range runs {
				var six, minute [2]float64
				for w := range 36 {
					var drawn [2]float64
					for range perSecond * window {
						runner := 0
						if rng.Float64()*(work[0]+work[1]) >= work[0] {
							runner = 1
						}
						drawn[runner] += work[0] + work[1]
					}
					win := Window{Length: window * time.Second, Mechanism: sharing.MechanismTimeSlicing, SwitchShare: 0.068, Samples: perSecond * window,
						Busy: sharing.Some(work[0] + work[1])}
					for i := range pods {
						win.Claims = append(win.Claims, Claim{Pod: pods[i], Resident: true, Busy: sharing.Some(min(drawn[i]/(perSecond*window), 1))})
					}
					parts, err := Divide(win)
					if err != nil {
						t.Fatal(err)
					}
					for _, p := range parts {
						for i := range pods {
							if p.Account != accountTenant || p.Pod != pods[i] {
								continue
							}
							minute[i] += p.Time.Seconds() / 60
							six[i] += p.Time.Seconds() / 360
							windows++
							if p.Low.Seconds() <= work[i]*window && work[i]*window <= p.High.Seconds() {
								held++
							}
						}
					}
					if w%6 == 5 {
						for i := range pods {
							minutes++
							if math.Abs(minute[i]-work[i]) > 0.05 {
								far++
							}
						}
						minute = [2]float64{}
					}
				}
				for i := range pods {
					worst = max(worst, math.Abs(six[i]-work[i]))
					sum[i] += six[i]
				}
				n++
			}
			bias := max(math.Abs(sum[0]/n-work[0]), math.Abs(sum[1]/n-work[1]))
			t.Logf("bias %.2f points; %.1f%% of minutes within 5 points, six minutes within %.1f; bounds hold %.1f%% of windows",
				100*bias, 100-100*float64(far)/float64(minutes), 100*worst, 100*float64(held)/float64(windows))
			if bias > 0.002 || float64(far) > 0.08*float64(minutes) || worst > 0.05 || float64(held) < 0.95*float64(windows) {
				t.Error("the package documents another rule")
			}
		})
	}
}
