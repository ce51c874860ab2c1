// Package tidy has the tests that read the project itself: its source, its documents
// and its layers. They read them in their own process, so that the test cache notices
// every change.
package tidy
