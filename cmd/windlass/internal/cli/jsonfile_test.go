package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadObjects_LinesArraysAndPrettyPrintedOnes(t *testing.T) {
	big := `{"x":"` + strings.Repeat("y", objectBytesMax) + `"}`
	for _, c := range []struct{ name, content, want string }{
		{"nothing", "", ""},
		{"blank lines", "\n \n", ""},
		{"on lines", "{\"a\":1}\n\n{\"b\":2}\n", `1{"a":1} 3{"b":2} `},
		{"after a byte order mark", "\xEF\xBB\xBF{\"a\":1}\n{\"b\":2}", `1{"a":1} 2{"b":2} `},
		{"on one line", `{"a":1} {"b":2}`, `1{"a":1} 1{"b":2} `},
		{"pretty-printed", "{\n \"a\":\n 1\n}\n{\"b\":2}", "1{\n \"a\":\n 1\n} 5{\"b\":2} "},
		{"an array", "[{\"a\":1},\n{\"b\":[2]}\n]\n", `1{"a":1} 2{"b":[2]} `},
		{"a pretty-printed array", "\n[\n  {\n    \"a\": 1\n  },\n  {}\n]", "3{\n    \"a\": 1\n  } 6{} "},
		{"an empty array", "[\n]", ""},
		{"a cut object", "{}\n{\"a\"", "1{} 2: unexpected EOF"},
		{"no JSON", "{}\n\n  nonsense\n", "1{} 3: invalid character 'o' in literal null (expecting 'u')"},
		{"an array without an end", "[{},\n{}", "1{} 2{} 2: unexpected EOF"},
		{"something after an array", "[{}]\n{}", "1{} 2{} "},
		{"no comma", "[{}\n{}]", "1{} 2: expected comma after array element"},
		{"too large", "{}\n" + big, "1{} 2: an object may have 1048576 bytes"},
		{"without an end", "{}\n\"" + strings.Repeat("y", 4*objectBytesMax), "1{} 2: an object may have 1048576 bytes"},
	} {
		for slowly, in := range map[bool]io.Reader{false: strings.NewReader(c.content), true: iotest.OneByteReader(strings.NewReader(c.content))} {
			var got strings.Builder
			err := (&app{in: in}).readObjects("-", "done", func(line int, object []byte) error {
				fmt.Fprintf(&got, "%d%s ", line, object)
				return nil
			})
			if err != nil {
				got.WriteString(strings.TrimSuffix(strings.TrimPrefix(err.Error(), "-:"), "; nothing was done"))
			}
			if got.String() != c.want {
				t.Errorf("%s, byte by byte %t: %q, want %q", c.name, slowly, got.String(), c.want)
			}
		}
	}
}

func TestDecodeStrictly_RefusesWhatTheDecoderWouldOverlook(t *testing.T) {
	type line struct {
		ID    string          `json:"id"`
		Props json.RawMessage `json:"props"`
		Retry struct {
			Min string `json:"min"`
		} `json:"retry"`
		Tags map[string]string `json:"tags"`
	}
	for object, want := range map[string]string{
		`{"id":"a","props":{"x":1,"X":2}}`: "", `{"id":"a","tags":{"x":"1","X":"2"}}`: "",
		`{"id":"a","props":{"l":[{"x":1,"x":2}]}}`: `the field "props.l[0].x" is there twice`, `{"retry":{"min":"1s","Min":"2s"}}`: `the field "retry.Min" is not known; it is written "min"`,
		`{"tags":{"x":"1","x":"2"}}`: `the field "tags.x" is there twice`, `{"id":"a","id":"a"}`: `the field "id" is there twice`,
		`{"id":"a","props":{"id":1},"ID":"b"}`: `the field "ID" is not known; it is written "id"`, `{"id":"a","bogus":1}`: `the field "bogus" is not known`,
		"{\"id\":\"\xff\"}": "not valid UTF-8", `["a"]`: "must be an object, not array", `{"id":`: "unexpected end of JSON input",
	} {
		err := decodeStrictly([]byte(object), &line{})
		if text := fmt.Sprint(err); (err == nil) != (want == "") || !strings.Contains(text, want) && want != "" {
			t.Errorf("%s: %v, want %q", object, err, want)
		}
	}
}
