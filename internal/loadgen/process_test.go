package loadgen

import (
	"errors"
	"strings"
	"testing"
)

func TestTail_KeepsTheEndAndExplainsErrorsOnly(t *testing.T) {
	var last tail
	for range 3 {
		_, _ = last.Write([]byte(strings.Repeat("x", tailBytesMax/2)))
	}
	_, _ = last.Write([]byte("the end\n"))
	if n := len(last.text); n != tailBytesMax {
		t.Errorf("it keeps %d bytes", n)
	}
	if err := last.explain(nil); err != nil {
		t.Errorf("a good end is %v", err)
	}
	refused := errors.New("refused")
	if err := last.explain(refused); !errors.Is(err, refused) || !strings.HasSuffix(err.Error(), "the end") {
		t.Errorf("a bad end is %v", err)
	}
}
