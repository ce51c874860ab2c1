package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/internal/view"
)

// planSubmit prints what submitting tasks would do.
func (a *app) planSubmit(ctx context.Context, c *windlass.Client, tasks []windlass.Submission) error {
	planned, errs, err := inspect.New(c).PlanSubmit(ctx, tasks)
	if err != nil {
		return err
	}
	_, first := view.SubmittedOf(errs)
	if len(tasks) == 1 && first != nil {
		return rerunnable(first) // it says everything
	}
	plan := view.SubmitPlanOf(planned, errs)
	plan.Warnings, _ = inspect.New(c).Warnings(ctx, tasks) // who cannot read them has been told of worse
	a.warn(plan.Warnings...)
	err = a.print(plan, func() table { return submitPlanTable(plan) })
	if first != nil {
		err = errors.Join(err, fmt.Errorf("%d of %d tasks would not be submitted; the first: %w", plan.Failed, len(tasks), rerunnable(first)))
	}
	return err
}

func submitPlanTable(plan view.SubmitPlan) table {
	var t table
	for _, effect := range slices.Sorted(maps.Keys(plan.Effects)) {
		t.add("would be "+string(effect), strconv.Itoa(plan.Effects[effect]))
	}
	t.add("existed already", strconv.Itoa(plan.Existed))
	for _, n := range plan.Nodes {
		t.add("node "+n.Node, fmt.Sprintf("would claim %d", n.Tasks))
	}
	t.add("would wait", strconv.Itoa(plan.Waits))
	for _, w := range plan.Waiting {
		t.add("why", fmt.Sprintf("%d, such as %s: %s", w.Tasks, w.First, w.Why))
		for _, n := range w.Nodes {
			t.add("node "+n.Node, view.Verdict(inspect.Explanation{}, n))
		}
	}
	if plan.Failed > 0 {
		t.add("would be refused", strconv.Itoa(plan.Failed))
	}
	for _, text := range plan.Errors {
		t.add("error", text)
	}
	return t
}
