// Package metrics exports what nodes do to Prometheus. It attaches from outside,
// through the interfaces of the library: a broker that measures its calls, the events
// of a node, its coordinator, and its Stats, which are read when metrics are scraped.
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
// It adds no call to the broker, except for Config.Space if the caller sets it. For
// each claim and each run it only adds to atomic numbers. No label has the name of a
// task, a node or an election; Config.TypesMax limits the types of tasks.
//
// docs/operate/operations.md says what each metric means and how to react to it.
package metrics
