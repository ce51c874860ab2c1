package listing

import "testing"

func TestTagsIn_FindsTheTagsOfWhatHasEnded(t *testing.T) {
	if tags := TagsIn([]byte(`{"group":"tags","tags":{"k":"\u003cv\u003e"}}`)); len(tags) != 1 || tags["k"] != "<v>" {
		t.Errorf("it has %v", tags)
	}
	for _, spec := range []string{"", `{"group":"tags"}`, `{"require":{"tags":"x"}}`, `{"tags":`, `{"tags":{}}`} {
		if tags := TagsIn([]byte(spec)); len(tags) != 0 {
			t.Errorf("%s has %v", spec, tags)
		}
	}
}
