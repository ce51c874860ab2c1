package proc

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of times in /proc, which is the same on every Linux.
const tick = 10 * time.Millisecond

// CPU is the processor time that processes and all that descends from them have
// used so far, ended ones included; ok is false where the system does not tell.
func CPU(pids ...int) (used time.Duration, ok bool) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, false
	}
	parents, times := map[int]int{}, map[int]time.Duration{}
	for _, path := range stats {
		if text, err := os.ReadFile(path); err == nil { // it may have ended meanwhile
			if pid, parent, t, ok := parseStat(string(text)); ok {
				parents[pid], times[pid] = parent, t
			}
		}
	}
	wanted := map[int]bool{}
	for _, pid := range pids {
		wanted[pid] = true
	}
	for pid, t := range times {
		for p := pid; p > 1; p = parents[p] {
			if wanted[p] {
				used += t
				break
			}
		}
	}
	return used, true
}

// parseStat reads a line of /proc/<pid>/stat. The name in it may have spaces and
// parentheses itself.
func parseStat(text string) (pid, parent int, used time.Duration, ok bool) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return 0, 0, 0, false
	}
	fields := strings.Fields(text[end+1:])
	const parentField, userField, childSystemField = 1, 11, 14
	if len(fields) <= childSystemField {
		return 0, 0, 0, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(text[:open]))
	if err != nil {
		return 0, 0, 0, false
	}
	if parent, err = strconv.Atoi(fields[parentField]); err != nil {
		return 0, 0, 0, false
	}
	for _, field := range fields[userField : childSystemField+1] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, 0, 0, false
		}
		used += time.Duration(ticks) * tick
	}
	return pid, parent, used, true
}
