package stored

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

type fitting struct {
	inner
	Flag  bool           `json:"flag"`
	At    *time.Time     `json:"at"`
	Small int8           `json:"small"`
	List  []inner        `json:"list"`
	Tags  map[string]int `json:"tags"`
	Any   any            `json:"any"`
	Share float32        `json:"share"`
}

// encoding/json names types of Go, and no field where a type reads itself.
func TestDecode_SaysWhatDoesNotFitAndWhere(t *testing.T) {
	for value, want := range map[string]string{
		`{"flag":7}`:                        `the field "flag" must be true or false, not number`,
		`{"at":"soon"}`:                     `the field "at" must be a time such as "2026-01-02T15:04:05Z"`,
		`{"small":300}`:                     `the field "small" must be a whole number of at most 8 bits, not number 300`,
		`{"tags":{"a":1,"b":"x"}}`:          `the field "tags.b" must be a whole number of at most 64 bits, not string`,
		`{"tags":[]}`:                       `the field "tags" must be an object, not array`,
		`{"list":{}}`:                       `the field "list" must be a list, not object`,
		`{"share":"x"}`:                     `the field "share" must be a number of at most 32 bits, not string`,
		`[]`:                                `the value must be an object, not array`,
		`{"any":{"x":[1]},"at":null}`:       "",
		`{"any":{"x":1e400}}`:               `the field "any" is a number beyond those of 64 bits`,
		`{"list":[{},{"min":"1"},{"m":7}]}`: `the field "list[1].min" must be a whole number of at most 64 bits, not string`,
	} {
		var into fitting
		err := Decode([]byte(value), &into)
		fault, _ := errors.AsType[*Fault](err)
		if got := said(fault); got != want || (err == nil) != (want == "") {
			t.Errorf("of %s it says %q, want %q", value, got, want)
		}
	}
	// The value may be long, and is not repeated.
	err := Decode([]byte(`{"small":`+strings.Repeat("9", 10_000)+`}`), new(fitting))
	if err == nil || len(err.Error()) > 300 {
		t.Errorf("%v", err)
	}
}

// A decoder puts another character in the place of half of one, and fails at a number without saying where.
func TestCheck_FindsLiteralsThatADecoderDoesNotKeep(t *testing.T) {
	most := Bounds{Float64: true, Surrogates: true}
	for value, want := range map[string]string{
		`{"id":"\ud83d\ude00 \\ud83d \u00e4 \uD83D\uDE00"}`: "",
		`{"id":"\ud83d"}`:                              `the field "id" has half of a character, an escape of a UTF-16 surrogate alone`,
		`{"id":"\ude00\ud83d"}`:                        `the field "id" has half of a character, an escape of a UTF-16 surrogate alone`,
		`{"id":"\ud83d\u00e4"}`:                        `the field "id" has half of a character, an escape of a UTF-16 surrogate alone`,
		`{"id":"\\\ud83d"}`:                            `the field "id" has half of a character, an escape of a UTF-16 surrogate alone`,
		`{"props":{"\ud83d":1}}`:                       "the field \"props.\ufffd\" has half of a character, an escape of a UTF-16 surrogate alone",
		`{"props":[1e308,-1e-400,123456]}`:             "",
		`{"props":[1,{"x":1e309}]}`:                    `the field "props[1].x" is a number beyond those of 64 bits`,
		`{"props":-1` + strings.Repeat("0", 400) + `}`: `the field "props" is a number beyond those of 64 bits`,
	} {
		if !json.Valid([]byte(value)) {
			t.Fatalf("%s is no JSON", value)
		}
		if got := said(Check([]byte(value), outer{}, most)); got != want {
			t.Errorf("of %s it says %q, want %q", value, got, want)
		}
		if got := said(Check([]byte(value), outer{}, Bounds{})); got != "" {
			t.Errorf("without bounds %s is refused: %s", value, got)
		}
	}
}
