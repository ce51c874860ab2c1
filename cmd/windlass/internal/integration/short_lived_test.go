package integration_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
)

// shortLived returns the types that a node's registration lists as short-lived.
func (f *fleet) shortLived(node string) []string {
	f.t.Helper()
	var info windlass.NodeInfo
	f.must(json.Unmarshal(f.get("/test/nodes/"+node+"/info").Value, &info))
	return info.ShortLived
}

// register writes the registration of a node that takes nothing.
func (f *fleet) register(node, fields string) {
	f.t.Helper()
	f.put("/test/nodes/"+node+"/info", fmt.Sprintf(`{"name":%q,"frozen":true,%s}`, node, fields))
	f.Advance(time.Second)
}

func TestPlacement_ARegistrationNamesTheTypesThatWereFoundShortLivedForAsLongAsTheyAre(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.nodes(2, also("job", done))
		f.submit("lasting", 10, windlass.Spec{})
		f.submit("job", 40, windlass.Spec{Type: "job"})
		f.Advance(5 * time.Second)
		for _, n := range []string{"n00", "n01"} {
			if got := f.shortLived(n); !slices.Equal(got, []string{"job"}) {
				t.Errorf("%s names %q", n, got)
			}
		}
		f.Advance(11 * time.Minute)
		for _, n := range []string{"n00", "n01"} {
			if got := f.shortLived(n); len(got) > 0 {
				t.Errorf("long after the last has ended %s names %q", n, got)
			}
		}
	})
}

// A node that has just started has seen no task end. Placed by their names, the tasks are not
// spread evenly.
func TestPlacement_ANodeLearnsFromARegistrationWhichTypesAreShortLived(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.nodes(3)
		f.register("other", `"short_lived":["lasting"]`)
		f.submit("t", 30, windlass.Spec{Type: "lasting"})
		f.Advance(time.Second)
		if load := f.load(); load["n00"] == 10 && load["n01"] == 10 {
			t.Errorf("the nodes run %v", load)
		}
		if f.claimsRefused() > 0 {
			t.Errorf("%d claims were refused", f.claimsRefused())
		}
	})
}

func TestPlacement_WhateverARegistrationSaysOfShortLivedTypesIsHarmless(t *testing.T) {
	for name, fields := range map[string]string{
		"no list":          `"short_lived":5`,
		"no names":         `"short_lived":["a/b","*","\u0000","` + strings.Repeat("t", windlass.TypeBytesMax+1) + `"]`,
		"null":             `"short_lived":[null,null]`,
		"more than it may": `"short_lived":[` + strings.Repeat(`"x",`, 200) + `"lasting"]`,
	} {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(_ *testing.T, f *fleet) {
				f.nodes(3)
				f.register("other", fields)
				f.submit("t", 30, windlass.Spec{Type: "lasting"})
				f.Advance(time.Second)
				f.loaded(map[string]int{"n00": 10, "n01": 10, "n02": 10})
			})
		})
	}
}
