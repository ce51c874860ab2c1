package brokertest_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass/broker/brokertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRules_AreNumberedWithoutGap(t *testing.T) {
	names := map[string]bool{}
	for i, r := range brokertest.Rules() {
		if want := fmt.Sprintf("B%02d", i+1); r.Number != want {
			t.Errorf("rule %s is in the place of %s", r.Number, want)
		}
		if names[r.Name] || !regexp.MustCompile(`^[a-z]+(_[a-z]+)+$`).MatchString(r.Name) {
			t.Errorf("rule %s has the name %q: used twice, or not words with underscores", r.Number, r.Name)
		}
		names[r.Name] = true
		if !strings.HasSuffix(r.Sentence, ".") {
			t.Errorf("rule %s is no sentence: %q", r.Number, r.Sentence)
		}
	}
}
