// Package tidy has the tests that read the project itself: its source, its documents
// and its layers. They read them in their own process, by a path within this module, so that
// the test cache notices every change.
package tidy
