package integration_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
)

// Whoever writes to the store by hand is held to no limit: such a task was claimed, failed, and claimed
// again without a pause.
func TestTasks_PropertiesThatAreTooLongDoNotKeepNodesBusy(t *testing.T) {
	for name, props := range map[string]string{
		"longer than they may be":     `"` + strings.Repeat("x", windlass.PropsBytesMax+1000) + `"`,
		"longer than can be stored":   `"` + strings.Repeat("x", broker.ValueBytesMax-100) + `"`,
		"nested deeper than they may": strings.Repeat("[", windlass.PropsDepthMax+1) + strings.Repeat("]", windlass.PropsDepthMax+1),
		"with a member twice":         `{"a":1,"a":2}`,
		"no JSON":                     `{"a":`,
	} {
		for _, ends := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", ends", false: ", runs on"}[ends], func(t *testing.T) {
				inEach(t, func(t *testing.T, c *cluster) {
					space, err := keys.New("test")
					c.must(err)
					_, err = broker.CommitOne(t.Context(), c.store, broker.Txn{Then: []broker.Op{broker.Put(space.Props("t"), []byte(props))}})
					c.must(err)
					if ends {
						c.join("a", running(failing))
					} else {
						c.join("a")
					}
					c.Advance(4 * time.Minute)
					if n := c.startsOf("t"); n > 12 {
						t.Errorf("it was started %d times", n)
					}
					_, h := c.historyOf("t")
					if h.Claims > 12 {
						t.Errorf("it was claimed %d times: %+v", h.Claims, c.task("t").TaskInfo)
					}
					if ends && name == "longer than can be stored" {
						if err := c.client.Rerun(t.Context(), windlass.Rerun{}, "t")[0]; !errors.Is(err, windlass.ErrNoInput) {
							t.Errorf("it is run again without what it was: %v", err)
						}
					}
				})
			})
		}
	}
}
