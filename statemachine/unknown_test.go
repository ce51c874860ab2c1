package statemachine

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestRecord_M06_KeepsTheFieldsOfANewerVersion(t *testing.T) {
	now := time.Unix(9, 0).UTC()
	r, err := Parse([]byte(`{"state":"runnable","newer":{"a":[1]},"failures":1,
		"errors":[{"timestamp":"2026-01-02T03:04:05Z","error":"<e>","newer":7},{"timestamp":"2026-01-02T03:04:06Z","error":"f"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	r.State, r.Until, r.Errors = Sleeping, &now, AddError(r.Errors, now, "g")
	written, err := r.Encode()
	const want = `{"state":"sleeping","until":"1970-01-01T00:00:09Z","failures":1,"errors":[` +
		`{"timestamp":"2026-01-02T03:04:05Z","error":"<e>","newer":7},{"timestamp":"2026-01-02T03:04:06Z","error":"f"},` +
		`{"timestamp":"1970-01-01T00:00:09Z","error":"g"}],"newer":{"a":[1]}}`
	if err != nil || string(written) != want {
		t.Errorf("wrote %s, %v, want %s", written, err, want)
	}
	again, err := Parse(written)
	if err != nil || again.State != Sleeping || len(again.Errors) != 3 || again.Errors[0].Error != "<e>" {
		t.Errorf("it is read as %+v, %v", again, err)
	}
}

func TestHistory_M06_KeepsTheFieldsOfANewerVersion(t *testing.T) {
	h, err := ParseHistory([]byte(`{"claims":1,"interruptions":0,"newer":"x","entries":[
		{"at":"1970-01-01T00:00:01Z","event":"claimed","node":"n","token":1,"newer":{"b":1}},
		{"at":"1970-01-01T00:00:02Z","event":"rested","node":"n","token":1}]}`))
	if err != nil {
		t.Fatal(err)
	}
	h.Add(entry(1, 3, EventReleased))
	written, err := h.Encode()
	if err != nil || !json.Valid(written) {
		t.Fatalf("wrote %s, %v", written, err)
	}
	for _, kept := range []string{`"newer":"x"`, `"newer":{"b":1}`, `"event":"rested"`, `"event":"released"`} {
		if !strings.Contains(string(written), kept) {
			t.Errorf("%s is not in %s", kept, written)
		}
	}
	if again, err := ParseHistory(written); err != nil || summary(again) != "1claimed 1rested 1released" {
		t.Errorf("it is read as %+v, %v", again, err)
	}
}

// BenchmarkParse compares Parse with parsing that ignores unknown fields.
func BenchmarkParse(b *testing.B) {
	value := []byte(`{"state":"completed","type":"exec","submitted_at":"2026-01-02T03:04:05Z","digest":"ca3d163bab05538182722614",` +
		`"node":"node-1","token":12345,"claimed_at":"2026-01-02T03:04:05.1Z","changed_at":"2026-01-02T03:04:06.1Z","result":{"exit_code":0}}`)
	b.Run("strictly", func(b *testing.B) {
		for b.Loop() {
			if _, err := Parse(value); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("loosely", func(b *testing.B) {
		for b.Loop() {
			if err := json.Unmarshal(value, &Record{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// FuzzEncode parses damaged values. Each is refused, or encoded to a value that encodes
// to itself.
func FuzzEncode(f *testing.F) {
	for _, value := range []string{
		`{"state":"runnable","x":1}`, `{"state":"runnable","errors":[null,{"y":1}]}`, `{"claims":1,"entries":[{"event":"x","z":[]},null]}`,
		`{"state":"runnable","errors":[{"error":"a"}],"Errors":[{"error":"b","q":1}],"ERRORS":null}`, `{"entries":[{"a":1}],"Entries":[]}`, `null`, `{"":"","-":{}}`,
	} {
		f.Add([]byte(value))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		for _, encode := range []func(value []byte) ([]byte, error){
			func(value []byte) ([]byte, error) {
				r, err := Parse(value)
				if err != nil {
					return nil, err
				}
				return r.Encode()
			},
			func(value []byte) ([]byte, error) {
				h, err := ParseHistory(value)
				if err != nil {
					return nil, err
				}
				return h.Encode()
			},
		} {
			first, err := encode(value)
			if err != nil {
				continue // it is refused, or has a time that cannot be encoded
			}
			if second, err := encode(first); err != nil || string(second) != string(first) {
				t.Errorf("%q is written as %s and then as %s, %v", value, first, second, err)
			}
		}
	})
}
