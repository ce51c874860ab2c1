// Package metrics feeds Prometheus with what nodes do. It attaches from outside,
// by the seams of the library: a broker that measures its calls, the events of a
// node, its coordinator, and its Stats, which are read when somebody asks.
//
//	m, err := metrics.New(metrics.Config{})
//	…
//	node, err := windlass.NewNode(m.Instrument(config))
//	…
//	m.Watch(node)
//	http.Handle("/metrics", m.Handler())
//
//	          ┌── Broker ──▶ windlass_store_*, windlass_watch_*, windlass_lease_renew_seconds
//	config ───┼── Coordinator ──▶ windlass_claim*, windlass_fenced_writes_total
//	          └── Events, Fence ──▶ windlass_run_seconds, windlass_handover_seconds, …
//	node ────── Stats, when scraped ──▶ windlass_tasks, windlass_lease_margin_seconds, …
//
// It adds no call to the broker; Config.Space is the one exception, and it is the
// caller's. What is done for each claim and each run are additions to atomic
// numbers. No label has the name of a task, a node or an election; the types of
// tasks are bounded by Config.TypesMax.
//
// docs/operations.md says what each metric means and what to do about it.
package metrics
