package integration_test

import (
	"testing"

	"github.com/windlass-go/windlass/observe/metrics"
)

func TestMetrics_AnEtcdTellsHowFullItIs(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		m, err := metrics.New(metrics.Config{Space: c.server.Broker().Space})
		c.must(err)
		families, err := m.Gatherer().Gather()
		c.must(err)
		for _, family := range families {
			if family.GetName() == "windlass_store_quota_ratio" {
				if got := family.GetMetric()[0].GetGauge().GetValue(); got <= 0 || got > 0.1 {
					t.Errorf("the ratio is %v", got)
				}
				return
			}
		}
		t.Error("there is no ratio")
	})
}
