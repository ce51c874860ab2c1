// Package report holds what a comparison measured and writes it down: as JSON that
// is stable, as Markdown tables, and as plots. What is written follows from the
// report alone, so that a document can be made anew from the JSON of a run and
// compared with what stands in it.
package report
