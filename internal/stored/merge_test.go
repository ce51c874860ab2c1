package stored

import (
	"encoding/json"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// The examples of RFC 7396, appendix A, and what they leave open.
func TestMerge(t *testing.T) {
	for _, c := range [][3]string{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"b"}`, `["c"]`, `["c"]`},
		{`{"a":"foo"}`, `null`, `null`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},

		{``, `{"a":{"b":null,"c":1}}`, `{"a":{"c":1}}`},
		{``, `7`, `7`},
		{`{ "n" : 1.50 , "o":{"x": 1e400 } }`, `{"p": 2 }`, `{"n":1.50,"o":{"x": 1e400 },"p":2}`},
		{`{"\u0061":1,"b":"\ud800"}`, `{"a":2}`, `{"\u0061":2,"b":"\ud800"}`},
		{`{"a":[null,{"b":null}]}`, `{"c":[null,{"b":null}]}`, `{"a":[null,{"b":null}],"c":[null,{"b":null}]}`},
	} {
		if got := string(Merge([]byte(c[0]), []byte(c[1]))); got != c[2] {
			t.Errorf("%s and %s are %s, want %s", c[0], c[1], got, c[2])
		}
	}
}

// FuzzMerge compares it with the pseudo-code of RFC 7396, section 2, on what was decoded.
func FuzzMerge(f *testing.F) {
	f.Add([]byte(`{"a":{"b":[1],"c":null}}`), []byte(`{"a":{"b":null,"d":{"e":null}},"f":2}`))
	f.Fuzz(func(t *testing.T, object, patch []byte) {
		var o, p any
		if json.Unmarshal(object, &o) != nil || json.Unmarshal(patch, &p) != nil || Check(object, nil, Bounds{}) != nil || Check(patch, nil, Bounds{}) != nil {
			t.Skip()
		}
		var got any
		if err := json.Unmarshal(Merge(object, patch), &got); err != nil {
			t.Fatal(err)
		}
		if want := merged(o, p); !reflect.DeepEqual(got, want) {
			t.Errorf("%s and %s are %v, want %v", object, patch, got, want)
		}
	})
}

func merged(object, patch any) any {
	p, isObject := patch.(map[string]any)
	if !isObject {
		return patch
	}
	o, isObject := object.(map[string]any)
	if !isObject {
		o = map[string]any{}
	}
	for name, value := range p {
		if value == nil {
			delete(o, name)
		} else {
			o[name] = merged(o[name], value)
		}
	}
	return o
}

// A patch of 900 levels around a long text was decoded and written again at each of them.
func TestMerge_ReadsAndWritesOnceHoweverDeep(t *testing.T) {
	patch := []byte(strings.Repeat(`{"a":`, 900) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat("}", 900))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	Merge(patch, patch)
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 8<<20 {
		t.Errorf("of %d bytes it makes %d", len(patch), allocated)
	}
}
