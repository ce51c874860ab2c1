// Command windlass runs tasks on a cluster: a ready node for OS commands, an
// embedded etcd, and the command line around them. See windlass --help.
package main

import (
	"context"
	"os"

	"github.com/windlass-go/windlass/cmd/windlass/internal/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
