package elections

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass/broker/etcd/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func endpoints(t *testing.T) []string {
	t.Helper()
	server, err := embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir(), Socket: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return []string{"unix://" + server.Socket()}
}

func TestHandOver_MeasuresBothSidesAsOften(t *testing.T) {
	const times = 5
	sides, err := HandOver(t.Context(), endpoints(t), 3, times)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range sides {
		if len(s.Times) != times || s.Requests < 2 || s.Watches <= 0 { // who asks in time need not watch
			t.Errorf("%s: %d times, %v requests and %v watches each", sideNames[i], len(s.Times), s.Requests, s.Watches)
		}
		for _, took := range s.Times {
			if took <= 0 {
				t.Errorf("%s: a hand-over took %v ms", sideNames[i], took)
			}
		}
	}
}

func TestTakeOver_IsAfterTheSessionExpired(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes as long as sessions do")
	}
	late, err := TakeOver(t.Context(), endpoints(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	for i, times := range late {
		if len(times) != 1 || times[0] < 0 {
			t.Errorf("%s: late by %v ms", sideNames[i], times)
		}
	}
}
