package integration_test

import (
	"context"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/lease"
	"github.com/windlass-go/windlass/operate"
	"github.com/windlass-go/windlass/statemachine"
)

// A session whose answer is lost runs out by itself: the call asks for another, as nothing has
// been changed yet.
func TestClient_O07_ASessionWhoseAnswerIsLostFailsNoCall(t *testing.T) {
	for what, call := range map[string]func(ctx context.Context, c *windlass.Client) error{
		"pause a type": func(ctx context.Context, c *windlass.Client) error { return operate.New(c).PauseType(ctx, "mail", "") },
		"cordon": func(ctx context.Context, c *windlass.Client) error {
			_, err := operate.New(c).Cordon(ctx, "n", "")
			return err
		},
		"dequeue": func(ctx context.Context, c *windlass.Client) error {
			_, err := lease.New(c, nil).Dequeue(ctx, "t", "script", 0)
			return err
		},
		"kill what nobody holds": func(ctx context.Context, c *windlass.Client) error {
			_, err := c.SendTask(ctx, "due", statemachine.Command{Message: statemachine.Kill})
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			inEach(t, func(t *testing.T, c *cluster) {
				c.job("a_t")
				c.Submit(windlass.Submission{ID: "due", Spec: windlass.Spec{NotBefore: time.Now().Add(time.Hour)}})
				c.must(call(t.Context(), c.clientBehind("lose-reply 1s on grant call 1")))
				if what == "kill what nobody holds" {
					c.wantStatus("due", windlass.StatusKilled)
				}
			})
		})
	}
}
