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
	ID     string           `json:"id"`
	Retry  *inner           `json:"retry"`
	Props  json.RawMessage  `json:"props"`
	List   []inner          `json:"list"`
	Map    map[string]inner `json:"map"`
	Hidden inner            `json:"-"`
}

func TestCheck_NamesWhatIsThereTwiceOrNotKnown(t *testing.T) {
	for _, c := range []struct {
		value string
		v     any
		want  string
	}{
		{`{"id":"a","props":{"id":1,"Id":2},"retry":{"min":1,"tags":{"a":"1","A":"2"}}}`, outer{}, ""},
		{`{"id":"a","id":"b"}`, outer{}, `the field "id" is there twice`},
		{`{"id":"a","ID":"b"}`, outer{}, `the field "ID" is not known; it is written "id"`},
		{`{"ID":"b"}`, &outer{}, `the field "ID" is not known; it is written "id"`},
		{`{"id":"a","ID":"b"}`, nil, ""},
		{`{"Min":2}`, outer{}, `the field "Min" is not known; it is written "min"`}, // of the struct that is embedded
		{`{"Hidden":{}}`, outer{}, `the field "Hidden" is not known`},
		{`{"inner":{}}`, outer{}, `the field "inner" is not known`},
		{`{"-":{}}`, outer{}, `the field "-" is not known`},
		{`{"until":{"any":1}}`, outer{}, ""}, // it reads itself
		{`{"list":[{"min":1},{"tags":{"x":"1","x":"2"}}]}`, &outer{}, `the field "list[1].tags.x" is there twice`},
		{`{"list":[{"min":1},{"max":1}]}`, &outer{}, `the field "list[1].max" is not known`},
		{`{"list":[{},{"m\u0069n":1,"min":2}]}`, outer{}, `the field "list[1].min" is there twice`},
		{`{"list":[{"tags":{}},{"tags":{"x":"1","X":"1"}}]}`, outer{}, ""},
		{`{"props":{"a":[[],[{"b":{"c":1,"c":1}}]]}}`, outer{}, `the field "props.a[1][0].b.c" is there twice`},
		{`[{"a":"\"a\":"},{"a":"{","b":"\\"},{"a":1,"b":{}, "a":2}]`, nil, `the field "[2].a" is there twice`},
		{`[{"":1,"":2}]`, nil, `the field "[0][\"\"]" is there twice`},
		{"\n{ \"a\" : 1 , \"b\" : [ 1 , -2e3 , true , null ] , \"a\" : 2 }", nil, `the field "a" is there twice`},
		{`{"tag` + "\u017f" + `":{}}`, outer{}, "the field \"tag\u017f\" is not known; it is written \"tags\""}, // to encoding/json it is the same
		{many(100, ""), nil, ""},
		{many(100, `,"k7":1`), nil, `the field "k7" is there twice`},
		{``, nil, ""}, {`1`, nil, ""}, {`[]`, nil, ""}, {`{}`, nil, ""}, {`"x"`, nil, ""},
		{`{"a":1`, nil, ""}, {`{"a"`, nil, ""}, {`{"a`, nil, ""}, {`{a:1,a:1}`, nil, ""}, {`[1 2]`, nil, ""}, {`{"a":}`, nil, ""},
		{strings.Repeat("[", 1_000_000), nil, ""},
	} {
		if got := said(Check([]byte(c.value), c.v, Bounds{})); got != c.want {
			t.Errorf("of %.80s it says %q, want %q", c.value, got, c.want)
		}
	}
}

func said(f *Fault) string {
	if f == nil {
		return ""
	}
	return f.Error()
}

func TestCheck_CountsWhatADecoderWouldMake(t *testing.T) {
	most := Bounds{Values: 10, Items: 3, Members: 2, Depth: 4, Text: 5}
	for value, want := range map[string]string{
		`[1,2,3,4,5,6,7,8,9]`:              "",
		`[1,2,3,4,5,6,7,8,9,10]`:           `the field "[9]" is the one after 10 values, and there may be no more`,
		`{"props":[1,2,3,4,5]}`:            "",
		`{"list":[{},{},{}]}`:              "",
		`{"map":{"a":{},"b":{}}}`:          "",
		`{"map":{"a":{},"b":{},"c":{}}}`:   `the field "map" has more than 2 members`,
		`{"list":[{},{},{},{}]}`:           `the field "list" has more than 3 items`,
		`{"props":[[[1]]]}`:                "",
		`{"until":"12345"}`:                "",
		`{"until":"123456"}`:               `the field "until" is longer than 5 bytes`,
		`{"id":"123456","props":"123456"}`: "",
		`{"props":[[[[]]]]}`:               `the field "props[0][0][0]" is nested more than 4 deep`,
		`{"props":{"a":{"b":{"c":{}}}}}`:   `the field "props.a.b.c" is nested more than 4 deep`,
		`{"props":{"a":{},"b":{},"c":[]}}`: "",
	} {
		if got := said(Check([]byte(value), outer{}, most)); got != want {
			t.Errorf("of %s it says %q, want %q", value, got, want)
		}
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

// FuzzCheck compares it with a decoder: what is read and written again has each member once, and as
// many of them if none was there twice.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{`{"a":1,"a":2}`, `[{"a":{"b":[]}},{"a":{"\u0061":1,"a":2}}]`, `{"a":"\\","b":"\""}`, `{"a":1,"b":{"a":1}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		fault := Check(value, nil, Bounds{})
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
		if fault := Check(again, nil, Bounds{}); fault != nil {
			t.Errorf("%v in %q", fault, again)
		}
		if lost := count(t, again) < count(t, value); lost != (fault != nil) {
			t.Errorf("%v in %q, which is read as %q", fault, value, again)
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

func TestCheck_KnowsNoFieldsOfATypeThatReadsItself(t *testing.T) {
	if got := plain(reflect.TypeFor[*json.RawMessage]()); got != nil {
		t.Errorf("a raw message has the fields of %v", got)
	}
}

func TestCheck_APathIsNotLongerThanItMayBeHoweverDeep(t *testing.T) {
	const levels = 9990
	name := strings.Repeat("n", 50)
	value := strings.Repeat(`{"`+name+`":`, levels) + `{"x":1,"x":2}` + strings.Repeat("}", levels)
	if f := Check([]byte(value), nil, Bounds{}); len(f.Path) > 2*pathBytesMax || !strings.HasPrefix(f.Path, "…") || !strings.HasSuffix(f.Path, "."+name+".x") {
		t.Errorf("%d bytes: %.100s", len(f.Path), f.Path)
	}
}
