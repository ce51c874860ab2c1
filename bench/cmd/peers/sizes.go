package main

import (
	"time"

	"github.com/windlass-go/windlass/bench/internal/elections"
	"github.com/windlass-go/windlass/bench/internal/fleet"
	"github.com/windlass-go/windlass/bench/internal/growth"
	"github.com/windlass-go/windlass/bench/internal/jobs"
)

// sizes say how much of each workload is measured.
type sizes struct {
	jobs      jobs.Config
	elections elections.Config
	fleet     fleet.Config
	growth    growth.Config
}

// fullSizes are those of a run that is worth writing down: about an hour.
var fullSizes = sizes{
	jobs: jobs.Config{Workers: []int{1, 3}, Jobs: 30_000, WarmUp: 3000, Latencies: 50, Repetitions: 5, Timeout: 5 * time.Minute},
	elections: elections.Config{
		Candidates: []int{3, 100, 1000}, HandOvers: 100, TakeOvers: 20, Repetitions: 9, Timeout: 5 * time.Minute,
	},
	fleet: fleet.Config{Members: []int{1, 3}, Tasks: 10_000, IdleFor: 20 * time.Second, Repetitions: 5, Timeout: 5 * time.Minute},
	growth: growth.Config{
		Sizes: []int{100, 1000, 10_000, 100_000}, Takes: 300, Repetitions: 3, Timeout: 10 * time.Minute,
	},
}

// quickSizes take a few minutes.
var quickSizes = sizes{
	jobs:      jobs.Config{Workers: []int{1, 3}, Jobs: 5000, WarmUp: 500, Latencies: 5, Repetitions: 1, Timeout: time.Minute},
	elections: elections.Config{Candidates: []int{3, 100}, HandOvers: 30, TakeOvers: 10, Repetitions: 1, Timeout: time.Minute},
	fleet:     fleet.Config{Members: []int{1, 3}, Tasks: 2000, IdleFor: 2 * time.Second, Repetitions: 1, Timeout: time.Minute},
	growth:    growth.Config{Sizes: []int{100, 1000, 10_000}, Takes: 50, Repetitions: 1, Timeout: 2 * time.Minute},
}

// profileSizes are of our own sides alone, and long enough for a profile.
var profileSizes = sizes{
	jobs:      jobs.Config{Workers: []int{3}, Jobs: 30_000, WarmUp: 1000, Latencies: 1, Repetitions: 1, Sides: []string{jobs.SideWindlassTuned}, Timeout: 3 * time.Minute},
	elections: elections.Config{Candidates: []int{100}, HandOvers: 200, Repetitions: 1, Sides: []int{elections.Windlass}, Timeout: 3 * time.Minute},
	fleet:     fleet.Config{Members: []int{1}, Tasks: 20_000, IdleFor: time.Second, Repetitions: 1, Timeout: 3 * time.Minute},
	growth:    growth.Config{Sizes: []int{10_000}, Takes: 300, Repetitions: 1, Timeout: 3 * time.Minute},
}
