package view

import (
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/tree"
)

// Top is the cluster at a moment. Its JSON is stable.
type Top struct {
	At        time.Time `json:"at"`
	Namespace string    `json:"namespace"`
	Broker    string    `json:"broker"`
	// Total and Counts are of all tasks; every status has a count.
	Total  int                     `json:"total"`
	Counts map[windlass.Status]int `json:"counts"`
	// Matching is the number of tasks that the filter selects, Tasks the first of them
	// in the order that was asked for.
	Matching  int                   `json:"matching"`
	Tasks     []windlass.TaskInfo   `json:"tasks"`
	Nodes     []windlass.NodeStatus `json:"nodes"`
	Elections []Election            `json:"elections"`
	Jobs      tree.Progress         `json:"jobs"`
}
