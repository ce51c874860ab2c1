package view

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/windlass-go/windlass"
)

// NodeEdits are changes of the nodes for a plan, as people type them.
type NodeEdits struct {
	// Joins and Sets are NAME:weight=N,capacity=N,zone=Z,label.KEY=VALUE, of which only
	// the name is needed; Sets have frozen=BOOL besides. Leaves are names.
	Joins, Leaves, Sets []string
}

// Apply makes the nodes of a plan from the present ones; it is a inspect.Edit. A
// node that joins runs every type of task that some node runs now. It returns a
// *windlass.BadInputError for what it cannot parse, and windlass.ErrNotFound for a node
// that does not exist.
func (e NodeEdits) Apply(nodes []windlass.NodeInfo) ([]windlass.NodeInfo, error) {
	var types []string
	for _, n := range nodes {
		types = append(types, n.Types...)
	}
	slices.Sort(types)
	types = slices.Compact(types)
	at := func(name string) int {
		return slices.IndexFunc(nodes, func(n windlass.NodeInfo) bool { return n.Name == name })
	}
	for _, name := range e.Leaves {
		i := at(name)
		if i < 0 {
			return nil, fmt.Errorf("leave: node %q: %w", name, windlass.ErrNotFound)
		}
		nodes = slices.Delete(nodes, i, i+1)
	}
	for _, text := range e.Sets {
		name, settings, _ := strings.Cut(text, ":")
		i := at(name)
		if i < 0 {
			return nil, fmt.Errorf("set: node %q: %w", name, windlass.ErrNotFound)
		}
		if err := setNode(&nodes[i], settings); err != nil {
			return nil, &windlass.BadInputError{Field: "set", Value: text, Limit: err.Error()}
		}
	}
	for _, text := range e.Joins {
		name, settings, _ := strings.Cut(text, ":")
		n := windlass.NodeInfo{Name: name, Types: types}
		err := setNode(&n, settings)
		if at(name) >= 0 {
			err = errors.New("a node of this name is there")
		}
		if err != nil {
			return nil, &windlass.BadInputError{Field: "join", Value: text, Limit: err.Error()}
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// setNode reads settings such as weight=2,zone=east.
func setNode(n *windlass.NodeInfo, settings string) (err error) {
	if settings == "" {
		return nil
	}
	for setting := range strings.SplitSeq(settings, ",") {
		key, value, ok := strings.Cut(setting, "=")
		label, isLabel := strings.CutPrefix(key, "label.")
		switch {
		case !ok:
			return fmt.Errorf("%q must be like key=value", setting)
		case key == "weight":
			n.Weight, err = wholeNumber(value)
		case key == "capacity":
			n.Capacity, err = wholeNumber(value)
		case key == "zone":
			n.Zone = value
		case key == "frozen":
			if n.Frozen, err = strconv.ParseBool(value); err != nil {
				err = fmt.Errorf("%q must be true or false", value)
			}
		case isLabel:
			n.Labels = maps.Clone(n.Labels)
			if n.Labels == nil {
				n.Labels = map[string]string{}
			}
			n.Labels[label] = value
		default:
			return fmt.Errorf("%q must be one of weight, capacity, zone, frozen and label.KEY", key)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

func wholeNumber(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		err = fmt.Errorf("%q must be a whole number", text)
	}
	return n, err
}
