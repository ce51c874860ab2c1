package exectask

import (
	"syscall"
	"time"
)

// sweep kills every process of a lost supervisor's session, and every one marked by one of
// its runs. It returns how many are left, zero unless some cannot be killed.
//
// The programs died with the supervisor, by their death signal, but their children did
// not. Those are not our descendants, so sweep reads the whole process table until it
// finds none twice in a row.
func sweep(session int, runs map[string]int) int {
	end := time.Now().Add(sweepMax)
	clean, left := 0, 0
	for clean < 2 && time.Now().Before(end) {
		left = sweepOnce(session, runs)
		clean++
		if left > 0 {
			clean = 0
		}
		time.Sleep(scanPauseMin)
	}
	return left
}

func sweepOnce(session int, runs map[string]int) (found int) {
	table, err := processes()
	if err != nil {
		return 1 // there may be some
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
		_ = p.signal(syscall.SIGKILL) // the next reading shows whether it has ended
	}
	return found
}
