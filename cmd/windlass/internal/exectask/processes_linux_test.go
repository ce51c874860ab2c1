package exectask

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
)

func TestAMachineThatIsOutOfProcessesRefusesNoCommandForGood(t *testing.T) {
	for err, want := range map[error]error{syscall.EAGAIN: ErrTooMany, syscall.ENOMEM: ErrTooMany, syscall.EMFILE: ErrTooMany,
		syscall.ENOENT: ErrNotStarted, syscall.EACCES: ErrNotStarted} {
		if got := failed(failureOf(fmt.Errorf("fork: %w", err)), "x"); !errors.Is(got, want) {
			t.Errorf("%v is %v", err, got)
		}
	}
}
