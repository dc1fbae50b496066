//go:build nightly

package guard

import "testing"

func TestWholeDay(t *testing.T) { checkDay(t, dayGPUs, 0, 1) }
