package exectask

import (
	"syscall"
	"time"
)

// sweep kills what a lost supervisor left behind: every process of its session,
// and every one marked by one of the runs. It returns how many it could still
// see at the end, zero unless something cannot be killed.
//
// The programs themselves died with the supervisor, by their death signal.
// Their children did not. They are not ours either, so they are looked for in
// the whole table until two walks in a row find none.
func sweep(session int, runs map[string]int) int {
	pause := time.NewTicker(scanPauseMin)
	defer pause.Stop()
	end := time.Now().Add(sweepMax)
	clean, left := 0, 0
	for clean < 2 && time.Now().Before(end) {
		left = sweepOnce(session, runs)
		clean++
		if left > 0 {
			clean = 0
		}
		<-pause.C
	}
	return left
}

func sweepOnce(session int, runs map[string]int) (found int) {
	table, err := processes()
	if err != nil {
		return 1 // unknown is not none
	}
	for _, p := range table {
		if p.zombie {
			continue
		}
		if p.sid != session {
			if _, ok := runs[readMarker(p.pid)]; !ok {
				continue
			}
		}
		found++
		// What is gone meanwhile, or may not be killed, shows in the next walk.
		_ = p.signal(syscall.SIGKILL)
	}
	return found
}
