package tidy_test

import (
	"log"
	"os"
	"testing"
)

// Paths in these tests are from the root of the project.
func TestMain(m *testing.M) {
	if err := os.Chdir("../../../.."); err != nil {
		log.Fatal(err)
	}
	os.Exit(m.Run())
}
