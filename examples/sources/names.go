package main

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/windlass-go/windlass/tree"
)

// The types of the jobs.
const (
	typeList    = "list"    // finds the folders and queues all other jobs
	typePackage = "package" // lists the Go files of a folder
	typeHash    = "hash"    // reads them
	typeMerge   = "merge"   // sums a folder up with all below it
	typeReport  = "report"  // says what the whole is
)

// top is the name of the jobs of the top folder, and what other names begin with.
// So none begins with an underscore or is a dot, which names must not.
const top = "src"

// The jobs that there is one of.
var (
	listPath   = tree.Path("").Child(top, typeList)
	reportPath = listPath.Child(top, typeReport)
)

// nameOf is what the jobs of a folder are called: src:net:http for net/http. What a
// name must not contain, and the colon, is escaped as in a URL, so no two folders
// have the same name.
func nameOf(dir string) string {
	if dir == "." {
		return top
	}
	return top + ":" + strings.ReplaceAll(url.QueryEscape(dir), "%2F", ":")
}

// partOf is what the merge of a part of a folder is called. No folder's jobs are
// called that, as an at sign in a folder is escaped.
func partOf(name string, n int) string { return fmt.Sprintf("%s@%d", name, n) }

func packagePath(dir string) tree.Path { return listPath.Child(nameOf(dir), typePackage) }

func hashPath(dir string) tree.Path { return packagePath(dir).Child(nameOf(dir), typeHash) }

func mergePath(name string) tree.Path { return listPath.Child(name, typeMerge) }
