//go:build !linux

package clock

import "time"

func kernelRate() (Rate, bool) { return Rate{}, false }

func readRaw() (time.Duration, bool) { return 0, false }
