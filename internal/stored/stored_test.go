package stored

import (
	"testing"

	"pgregory.net/rapid"
)

type known struct {
	A     int    `json:"a"`
	B     string `json:"b,omitempty"`
	Shown int    `json:"-"`
}

func TestUnmarshal_M06_TellsWhatItHasNoFieldFor(t *testing.T) {
	for value, want := range map[string]Unknown{
		`{}`:                               "",
		`null`:                             "",
		`{"a":1,"b":"x"}`:                  "",
		`{"A":1}`:                          "", // which Go reads as the field
		`{"a":1,"c":{"d":[1, 2]},"b":"x"}`: `"c":{"d":[1, 2]}`,
		`{"z":null,"a":2,"<y>":"\u003c"}`:  `"<y>":"\u003c","z":null`,
		`{"":2,"-":3,"Shown":4}`:           `"":2,"-":3,"Shown":4`,
	} {
		var v known
		all, err := Unmarshal([]byte(value), &v)
		if unknown := UnknownIn([]byte(value), v); err != nil || unknown != want || all != (want == "") {
			t.Errorf("%s has unknown %s (all %v, %v), want %s", value, unknown, all, err, want)
		}
	}
}

func TestUnmarshal_RefusesWhatIsNoJSON(t *testing.T) {
	for _, value := range []string{"", "{", "{} {}", `{"a":1}x`, `{"a":"x","c":1}`, `[]`} {
		v := known{A: 7}
		if _, err := Unmarshal([]byte(value), &v); err == nil {
			t.Errorf("%q is read as %+v", value, v)
		}
	}
}

func TestMarshalWith_M06_KeepsIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := known{A: rapid.Int().Draw(t, "a"), B: rapid.String().Draw(t, "b")}
		names := rapid.SliceOfDistinct(rapid.StringMatching(`[c-z<" é]{1,3}`), func(s string) string { return s }).Draw(t, "names")
		members := map[string]any{"a": v.A, "b": v.B}
		for _, name := range names {
			members[name] = rapid.String().Draw(t, name)
		}
		before, err := Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		var read known
		if _, err := Unmarshal(before, &read); err != nil {
			t.Fatal(err)
		}
		read.A++
		after, err := MarshalWith(read, UnknownIn(before, read))
		if err != nil {
			t.Fatal(err)
		}
		var again known
		if _, err := Unmarshal(after, &again); err != nil || again.A != v.A+1 || again.B != read.B ||
			UnknownIn(after, again) != UnknownIn(before, read) {
			t.Errorf("%s became %s (%v)", before, after, err)
		}
	})
}

func TestMarshalWith_AnEmptyObject(t *testing.T) {
	if got, err := MarshalWith(struct{}{}, `"x":1`); err != nil || string(got) != `{"x":1}` {
		t.Errorf("got %s, %v", got, err)
	}
}
