// Package specs reads stored specs of tasks for the packages above the node.
package specs

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/kind"
	"github.com/windlass-go/windlass/placement"
)

// Parse parses the value of a task's key. An empty value is an empty spec.
func Parse(value []byte) (spec windlass.Spec, err error) {
	if len(bytes.TrimSpace(value)) == 0 {
		return spec, nil
	}
	if err := json.Unmarshal(value, &spec); err != nil {
		return windlass.Spec{}, fmt.Errorf("spec: %w", err)
	}
	return spec, nil
}

// Kinds returns kinds that know where and when a task may run, and no more of it.
func Kinds() *kind.Kinds[struct{}] {
	return kind.New(func(value []byte) (struct{}, placement.Class, kind.Facts) {
		s, err := Parse(value)
		return struct{}{}, s.Class(), kind.Facts{Priority: s.Priority, NotBefore: s.NotBefore, Turn: broker.Revision(s.Turn), Needs: s.Needs, Err: err}
	})
}
