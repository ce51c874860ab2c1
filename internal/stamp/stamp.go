// Package stamp has the version that the linker was told, for programs of a release that
// are not made by go install: a container image is built without the repository, and the
// bytes of an archive must not depend on the tags that somebody's clone has. tools/dist
// and deploy/container/Containerfile set both by -ldflags=-X. They are empty in every
// other program, where debug.ReadBuildInfo has what Go recorded.
package stamp

var (
	// Version is like v0.1.0.
	Version string
	// Revision is the commit.
	Revision string
)
