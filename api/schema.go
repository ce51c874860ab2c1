package api

import (
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/statemachine"
	"github.com/windlass-go/windlass/tree"
)

// schemaName distinguishes types with the same name in several packages.
func schemaName(t reflect.Type, hint string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[view.Queued]():
		return "QueuedSum"
	case reflect.TypeFor[treeProgress]():
		return "TreeProgress"
	}
	return huma.DefaultSchemaNamer(t, hint)
}

// aliasSchemas sets the schemas of types that encode themselves. They cannot have a method
// Schema, because the library must not import huma.
func aliasSchemas(r huma.Registry) {
	r.RegisterTypeAlias(reflect.TypeFor[windlass.Duration](), reflect.TypeFor[durationText]())
	r.RegisterTypeAlias(reflect.TypeFor[windlass.Status](), reflect.TypeFor[statusText]())
	r.RegisterTypeAlias(reflect.TypeFor[windlass.Effect](), reflect.TypeFor[effectText]())
	r.RegisterTypeAlias(reflect.TypeFor[windlass.OnFailure](), reflect.TypeFor[onFailureText]())
	r.RegisterTypeAlias(reflect.TypeFor[statemachine.Message](), reflect.TypeFor[string]())
	r.RegisterTypeAlias(reflect.TypeFor[tree.Pattern](), reflect.TypeFor[pattern]())
	r.RegisterTypeAlias(reflect.TypeFor[tree.Progress](), reflect.TypeFor[treeProgress]())
}

// durationText is a duration in JSON.
type durationText struct{}

// Schema implements huma.SchemaProvider.
func (durationText) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Description: "a duration such as 1h30m", Examples: []any{"1h30m"}, MaxLength: new(64)}
}

type statusText struct{}

// Schema implements huma.SchemaProvider.
func (statusText) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Enum: texts(windlass.Statuses)}
}

type effectText struct{}

// Schema implements huma.SchemaProvider.
func (effectText) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Enum: texts([]windlass.Effect{
		windlass.EffectCreated, windlass.EffectUpdated, windlass.EffectUnchanged, windlass.EffectRerun, windlass.EffectRequeued})}
}

type onFailureText struct{}

// Schema implements huma.SchemaProvider.
func (onFailureText) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Enum: texts([]windlass.OnFailure{
		"", windlass.FailureBlocks, windlass.FailureSkips, windlass.FailureRuns})}
}

func texts[T ~string](values []T) []any {
	var all []any
	for _, v := range values {
		all = append(all, string(v))
	}
	return all
}

// pattern is a tree.Pattern with optional fields.
type pattern struct {
	Name string `json:"name,omitempty" doc:"regular expression that the whole name matches"`
	Type string `json:"type,omitempty" doc:"regular expression that the whole type matches"`
}

// treeProgress is the JSON of a tree.Progress.
type treeProgress struct {
	Total          int                     `json:"total"`
	Counts         map[windlass.Status]int `json:"counts"`
	Done           int                     `json:"done"`
	Percent        float64                 `json:"percent"`
	BlockedForGood int                     `json:"blocked_for_good"`
	StartedAt      *time.Time              `json:"started_at"`
	FinishedAt     *time.Time              `json:"finished_at"`
	Rate           float64                 `json:"rate"`
	LeftSeconds    *float64                `json:"left_seconds"`
}

// nullableStructs are properties that are an object or null, by schema. Huma cannot express
// that for a reference.
var nullableStructs = map[string][]string{"Task": {"spec", "state"}, "TaskDetail": {"spec", "state"}, "Job": {"spec", "state"}}

// finishSchemas corrects what huma cannot derive from the types.
func finishSchemas(r huma.Registry) {
	schemas := r.Map()
	for name, properties := range nullableStructs {
		for _, property := range properties {
			if of := schemas[name].Properties[property]; of.Ref != "" {
				*of = huma.Schema{AnyOf: []*huma.Schema{{Ref: of.Ref}, {Type: "null"}}}
			}
		}
	}
	delete(schemas, "ErrorModel") // huma's own errors, which are never sent
	delete(schemas, "ErrorDetail")
}
