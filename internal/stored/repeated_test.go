package stored

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

type inner struct {
	Min   int               `json:"min"`
	Tags  map[string]string `json:"tags"`
	Until time.Time         `json:"until"`
}

type outer struct {
	inner
	ID    string          `json:"id"`
	Retry *inner          `json:"retry"`
	Props json.RawMessage `json:"props"`
	List  []inner         `json:"list"`
}

func TestRepeated_NamesWhatIsThereTwiceAndWhere(t *testing.T) {
	for _, c := range []struct {
		value string
		v     any
		want  string
	}{
		{`{"id":"a","props":{"id":1,"Id":2},"retry":{"min":1,"tags":{"a":"1","A":"2"}}}`, outer{}, ""},
		{`{"id":"a","ID":"b"}`, outer{}, "ID"},
		{`{"id":"a","ID":"b"}`, nil, ""},
		{`{"min":1,"Min":2}`, outer{}, "Min"}, // of the struct that is embedded
		{`{"list":[{"min":1},{"tags":{"x":"1","x":"2"}}]}`, &outer{}, "list[1].tags.x"},
		{`{"retry":{"min":1,"MIN":2}}`, outer{}, "retry.MIN"},
		{`{"list":[{},{"m\u0069n":1,"min":2}]}`, outer{}, "list[1].min"},
		{`{"list":[{"tags":{}},{"tags":{"x":"1","X":"1"}}]}`, outer{}, ""},
		{`{"props":{"a":[[],[{"b":{"c":1,"c":1}}]]}}`, outer{}, "props.a[1][0].b.c"},
		{`[{"a":"\"a\":"},{"a":"{","b":"\\"},{"a":1,"b":{}, "a":2}]`, nil, "[2].a"},
		{`[{"":1,"":2}]`, nil, `[0][""]`},
		{"\n{ \"a\" : 1 , \"b\" : [ 1 , -2e3 , true , null ] , \"a\" : 2 }", nil, "a"},
		{`{"min":1,"m` + "\u0131" + `n":2}`, outer{}, ""}, // no letter that folds to i
		{`{"tags":{},"tag` + "\u017f" + `":{}}`, outer{}, "tag\u017f"},
		{many(100, ""), nil, ""},
		{many(100, `,"k7":1`), nil, "k7"},
		{``, nil, ""}, {`1`, nil, ""}, {`[]`, nil, ""}, {`{}`, nil, ""}, {`"x"`, nil, ""},
		{`{"a":1`, nil, ""}, {`{"a"`, nil, ""}, {`{"a`, nil, ""}, {`{a:1,a:1}`, nil, ""}, {`[1 2]`, nil, ""}, {`{"a":}`, nil, ""},
		{strings.Repeat("[", 1_000_000), nil, ""},
	} {
		if got := Repeated([]byte(c.value), c.v); got != c.want {
			t.Errorf("in %.80s %q is there twice, want %q", c.value, got, c.want)
		}
	}
	if err := Once([]byte(`{"a":{"b":1,"b":1}}`), nil); err == nil || err.Error() != `the field "a.b" is there twice` {
		t.Errorf("it says %v", err)
	}
}

// many is an object with n members, and more.
func many(n int, more string) string {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":%d`, i, i)
	}
	return "{" + strings.TrimPrefix(b.String()+more, ",") + "}"
}

// FuzzRepeated compares it with a decoder: what is read and written again has each member
// once, and as many of them if none was there twice.
func FuzzRepeated(f *testing.F) {
	for _, seed := range []string{`{"a":1,"a":2}`, `[{"a":{"b":[]}},{"a":{"\u0061":1,"a":2}}]`, `{"a":"\\","b":"\""}`, `{"a":1,"b":{"a":1}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		path := Repeated(value, nil)
		if !Valid(value) {
			return // it only must come to an end
		}
		var v any
		if err := json.Unmarshal(value, &v); err != nil {
			t.Skip()
		}
		again, err := Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if Repeated(again, nil) != "" {
			t.Errorf("%q is there twice in %q", Repeated(again, nil), again)
		}
		if lost := count(t, again) < count(t, value); lost != (path != "") {
			t.Errorf("%q is there twice in %q, which is read as %q", path, value, again)
		}
	})
}

// count counts the tokens of a value.
func count(t *testing.T, value []byte) (n int) {
	d := json.NewDecoder(bytes.NewReader(value))
	for d.More() || n > 0 {
		if _, err := d.Token(); err != nil {
			return n
		}
		n++
	}
	return n
}

func TestOnce_KnowsTheFieldsOfATypeThatReadsItselfByTheirExactNames(t *testing.T) {
	if got := plain(reflect.TypeFor[*json.RawMessage]()); got != nil {
		t.Errorf("a raw message has the fields of %v", got)
	}
}

func TestRepeated_APathIsNotLongerThanItMayBeHoweverDeep(t *testing.T) {
	const levels = 9990
	name := strings.Repeat("n", 50)
	value := strings.Repeat(`{"`+name+`":`, levels) + `{"x":1,"x":2}` + strings.Repeat("}", levels)
	if path := Repeated([]byte(value), nil); len(path) > 2*pathBytesMax || !strings.HasPrefix(path, "…") || !strings.HasSuffix(path, "."+name+".x") {
		t.Errorf("%d bytes: %.100s", len(path), path)
	}
}
