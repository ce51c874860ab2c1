package returns

import (
	"encoding/json"
	"testing"
	"time"
)

func TestParse_ReadsWhatEncodeWrites(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name            string
		promised, until time.Duration
	}{
		{"soon", time.Second, time.Second},
		{"past", -time.Hour, -time.Hour},
		{"by a clock that is ahead", time.Hour, time.Minute},
	} {
		p, err := Parse(Promise{Until: now.Add(tt.promised), Info: json.RawMessage(`{"name":"n"}`)}.Encode(), time.Minute, now)
		if err != nil || !p.Until.Equal(now.Add(tt.until)) || string(p.Info) != `{"name":"n"}` {
			t.Errorf("%s: %+v, %v", tt.name, p, err)
		}
	}
	for _, bad := range []string{"", "{", "[]", `{"until":1}`} {
		if _, err := Parse([]byte(bad), time.Minute, now); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
