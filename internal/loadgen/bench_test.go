package loadgen

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestConfig_BadInputIsNamedWithItsLimit(t *testing.T) {
	good := Config{Phases: Phases, Tasks: 1, Nodes: 2, IdleFor: time.Second, Timeout: time.Second}
	must(t, good.Check())
	for want, spoil := range map[string]func(*Config){
		"tasks 0: must be from 1 to 1000000":                        func(c *Config) { c.Tasks = 0 },
		"tasks 1000001: must be from 1 to 1000000":                  func(c *Config) { c.Tasks = 1_000_001 },
		"nodes 65: must be from 1 to 64":                            func(c *Config) { c.Nodes = 65 },
		"nodes 1: must be at least 2, because the phase failover":   func(c *Config) { c.Nodes = 1 },
		"idle-for 0s: must be more than 0 and at most 1h0m0s":       func(c *Config) { c.IdleFor = 0 },
		"timeout 2h0m0s: must be more than 0 and at most 1h0m0s":    func(c *Config) { c.Timeout = 2 * time.Hour },
		`phase "sing": must be one of submit, place, failover, dra`: func(c *Config) { c.Phases = []string{"sing"} },
	} {
		c := good
		spoil(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %s", err, want)
		}
	}
}

func TestInChunks_EveryTaskIsInOneChunk(t *testing.T) {
	for _, count := range []int{1, chunkTasks, chunkTasks + 1, 10*chunkTasks - 1} {
		seen := make(chan set, count)
		must(t, inChunks(t.Context(), set{first: 7, count: count}, func(some set) error {
			seen <- some
			return nil
		}))
		close(seen)
		tasks := map[int]bool{}
		for some := range seen {
			for i := range some.count {
				tasks[some.first+i] = true
			}
		}
		if len(tasks) != count || !tasks[7] || !tasks[7+count-1] {
			t.Errorf("of %d tasks %d are in chunks", count, len(tasks))
		}
	}
	refused := errors.New("refused")
	err := inChunks(t.Context(), set{count: 3 * chunkTasks}, func(set) error { return fmt.Errorf("no: %w", refused) })
	if !errors.Is(err, refused) {
		t.Errorf("the error is %v", err)
	}
}
