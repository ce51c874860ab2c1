package windlass

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/windlass-go/windlass/internal/kind"
)

// Nodes hold a hundred thousand tasks: what is alike must be kept once.
func TestKinds_TasksThatDifferInTheirTraceAloneShareOne(t *testing.T) {
	ks := kind.New(readKind)
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	var first *taskKind
	for _, trace := range []string{
		"", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-11111111111111111111111111111111-2222222222222222-00",
	} {
		value, err := json.Marshal(Spec{Type: "x", Priority: 3, SubmittedAt: at, Digest: "abc", Trace: trace})
		if err != nil {
			t.Fatal(err)
		}
		k := ks.Of(value)
		if first == nil {
			first = k
		}
		if k != first || k.Spec.Trace != "" || k.Spec.Digest != "" || k.Spec.Priority != 3 {
			t.Errorf("%s is another kind: %+v", value, k.Spec)
		}
		if _, ok := kind.OriginOf(value); !ok {
			t.Errorf("%s is not of our own spelling", value)
		}
		if o := originOf(value); o.trace != trace || o.digest != "abc" || !o.submittedAt.Equal(at) {
			t.Errorf("%s comes from %+v", value, o)
		}
	}
}

// What others have written is read as well, only not as fast.
func TestKinds_ATraceInAnyPlaceIsRead(t *testing.T) {
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, value := range []string{
		`{"trace":"` + trace + `","type":"x","submitted_at":"2026-01-02T03:04:05Z","digest":"abc"}`,
		`{"type":"x","submitted_at":"2026-01-02T03:04:05Z", "digest":"abc", "trace":"` + trace + `"}`,
		`{"type":"x","submitted_at":"2026-01-02T03:04:05Z","digest":"abc","trace":"` + trace + `","more":"y"}`,
	} {
		k, o := kind.New(readKind).Of([]byte(value)), originOf([]byte(value))
		if k.Err != nil || k.Spec.Type != "x" || k.Spec.Trace != "" {
			t.Errorf("%s: %+v, %v", value, k.Spec, k.Err)
		}
		if o.digest != "abc" || o.trace != trace || o.submittedAt.IsZero() {
			t.Errorf("%s comes from %+v", value, o)
		}
	}
}
