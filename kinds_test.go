package windlass

import (
	"encoding/json"
	"maps"
	"strings"
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

// A tag for each tenant would otherwise cost a kind for each task.
func TestKinds_TasksThatDifferInTheirTagsAloneShareOne(t *testing.T) {
	ks := kind.New(readKind)
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	var first *taskKind
	for _, spec := range []Spec{
		{}, {Tags: map[string]string{"tenant": "t1"}}, {Tags: map[string]string{"tenant": `",\"digest":"`, "tags": "{}", "trace": "}"}},
		{Trace: "00-11111111111111111111111111111111-2222222222222222-00", Tags: map[string]string{"a<b>": "\u2028 ü", "submitted_at": "x"}},
	} {
		spec.Type, spec.SubmittedAt, spec.Digest = "x", at, "abc"
		value, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		k := ks.Of(value)
		if first == nil {
			first = k
		}
		if k != first || k.Spec.Tags != nil {
			t.Errorf("%s is another kind: %+v", value, k.Spec)
		}
		if _, ok := kind.OriginOf(value); !ok {
			t.Errorf("%s is not of our own spelling", value)
		}
		if o := originOf(value); o.trace != spec.Trace || o.digest != "abc" || !o.submittedAt.Equal(at) || !maps.Equal(o.tags, spec.Tags) {
			t.Errorf("%s comes from %+v", value, o)
		}
	}
}

func TestKinds_TagsInAnyPlaceAreRead(t *testing.T) {
	ks := kind.New(readKind) // which must not take one for another
	for _, value := range []string{
		`{"tags":{"k":"v"},"type":"x","submitted_at":"2026-01-02T03:04:05Z","digest":"abc"}`,
		`{"type":"x","submitted_at":"2026-01-02T03:04:05Z","digest":"abc", "tags":{"k":"v"}}`,
		`{"type":"x","submitted_at":"2026-01-02T03:04:05Z","digest":"abc","tags": {"k":"v"} }`,
		`{"type":"x","submitted_at":"2026-01-02T03:04:05Z","digest":"abc","tags":{"k":"v"},"priority":3}`,
		`{"submitted_at":"2026-01-02T03:04:05Z","digest":"abc","tags":{"k":"v"},"type":"x"}`,
		`{"require":{"tags":"x"},"type":"x","submitted_at":"2026-01-02T03:04:05Z","digest":"abc","tags":{"k":"v"}}`,
	} {
		k, o := ks.Of([]byte(value)), originOf([]byte(value))
		if k.Err != nil || k.Spec.Type != "x" || k.Spec.Tags != nil || strings.Contains(value, "priority") != (k.Spec.Priority == 3) {
			t.Errorf("%s: %+v, %v", value, k.Spec, k.Err)
		}
		if o.digest != "abc" || o.tags["k"] != "v" || len(o.tags) != 1 || o.submittedAt.IsZero() {
			t.Errorf("%s comes from %+v", value, o)
		}
	}
}
