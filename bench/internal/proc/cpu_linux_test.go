package proc

import (
	"testing"
	"time"
)

func TestParseStat_ReadsANameWithParentheses(t *testing.T) {
	pid, parent, used, ok := parseStat("42 (a (b) c) S 7 42 42 0 -1 4194560 1 2 3 4 11 12 13 14 20 0 1 0 5 6 7\n")
	if !ok || pid != 42 || parent != 7 || used != 50*tick {
		t.Errorf("%d, %d, %v, %v", pid, parent, used, ok)
	}
	for _, bad := range []string{"", "42 a S 7", "42 (a) S", "x (a) S 7 42 42 0 -1 4194560 1 2 3 4 11 12 13 14 20"} {
		if _, _, _, ok := parseStat(bad); ok {
			t.Errorf("%q can be read", bad)
		}
	}
}

func TestCPU_OfAProcessThatWorksRises(t *testing.T) {
	child, err := Start(Self(busyRole), func([]byte) {})
	if err != nil {
		t.Fatal(err)
	}
	defer child.Close() // it ends by its input, and what it used was looked at
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for range poll.C {
		if used, ok := CPU(child.Pid()); ok && used > 0 {
			return
		}
		if child.Err() != nil {
			t.Fatal(child.Err())
		}
	}
}
