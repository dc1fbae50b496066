// SPDX-License-Identifier: Apache-2.0

//go:build nightly

package guard

import "testing"

func TestVerifyAMillionWindows(t *testing.T) { checkHistories(t, 1_000_000, 20_000) }
