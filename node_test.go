package windlass_test

import (
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker/faulty"
)

func TestNode_M17_TasksSpreadEvenlyOverNodesThatComeAndGo(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		a, b := c.join("a"), c.join("b")
		c.eventually(time.Second, "both joined", func() bool { return len(c.nodes()) == 2 })
		c.sleep(time.Second) // and know of each other
		c.submit(300, windlass.Spec{})
		c.eventually(5*time.Second, "all run", c.allRunning(300))
		if a, b := c.runningOn("a"), c.runningOn("b"); a != 150 || b != 150 {
			t.Errorf("a has %d and b %d", a, b)
		}
		d := c.join("d")
		took := c.eventually(10*time.Second, "even again", func() bool {
			return c.allRunning(300)() && c.runningOn("a") == 100 && c.runningOn("b") == 100 && c.runningOn("d") == 100
		})
		t.Logf("even after %v", took)
		moved := 0
		for _, n := range c.starts {
			moved += n - 1
		}
		if moved != 100 {
			t.Errorf("%d tasks moved; 100 had to", moved)
		}
		if err := b.leave(); err != nil {
			t.Error(err)
		}
		took = c.eventually(5*time.Second, "all run again", c.allRunning(300))
		t.Logf("all run again after %v", took)
		for _, m := range []*member{a, d} {
			if err := m.leave(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestNode_M17_ANodeThatJoinsWhileAnotherClaimsEverythingGetsItsShare(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.submit(300, windlass.Spec{})
		slow := faulty.MustParse("delay-reply 1s on commit below \"/test/tasks/\"")
		a := c.join("a", func(cfg *windlass.Config) { cfg.Broker = faulty.Wrap(cfg.Broker, slow) })
		c.eventually(time.Second, "a is there", func() bool { return len(c.nodes()) == 1 })
		c.sleep(100 * time.Millisecond) // and has asked for everything
		b := c.join("b")
		took := c.eventually(8*time.Second, "even", func() bool { return c.runningOn("a") == 150 && c.runningOn("b") == 150 })
		t.Logf("even after %v", took)
		a.leave()
		b.leave()
	})
}
